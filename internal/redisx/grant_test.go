package redisx_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redisx"
)

// grant gives a claim n more requests.
func grant(t *testing.T, s *redisx.Store, c core.Claim, n int) {
	t.Helper()
	if err := s.Settle(t.Context(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Limits: c.Limits, Grant: n}}); err != nil {
		t.Fatal(err)
	}
}

// A grant of a sliding limit lasts one period, and not a microsecond longer. No window ends with it.
func TestGrantEndsAfterOnePeriod(t *testing.T) {
	for _, a := range []core.Algorithm{core.SlidingWindow, core.SlidingLog} {
		s, server := frozen(t)
		c := claimOf("k", core.PerMinute(5).Using(a))
		grant(t, s, c, 3)
		c.Peek = true
		for after, want := range map[time.Duration]int{time.Minute - time.Microsecond: 8, time.Minute: 5} {
			server.SetTime(start.Add(after))
			if got := take(t, s, c)[0].Remaining; got != want {
				t.Errorf("%v, %v after a grant: %d remain, want %d", a, after, got, want)
			}
		}
	}
}

// The grant of a tier that has ended is dropped with the tier's record.
func TestGrantIsDroppedWithItsLimit(t *testing.T) {
	for _, a := range []core.Algorithm{core.FixedWindow, core.SlidingWindow, core.SlidingLog} {
		s, server := frozen(t)
		old := claimOf("k", core.PerSecond(5).Using(a))
		grant(t, s, old, 3)
		take(t, s, old, claimOf("k", core.PerHour(5)))
		server.SetTime(start.Add(10 * time.Second))
		take(t, s, claimOf("k", core.PerDay(5)))
		if n := len(parseWords(server.HGet(pairKey, "s"))); n != 1+6+6 {
			t.Errorf("%v: %d words are left, want the words of two token buckets", a, n)
		}
	}
}
