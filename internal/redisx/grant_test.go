package redisx_test

import (
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/redisx"
	"github.com/spillgate/spillgate/internal/testpass"
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

// TestGrantsAgreeWithTheModel compares the store with the model over timelines with many grants.
func TestGrantsAgreeWithTheModel(t *testing.T) {
	testpass.Sequential(t)
	store, server := frozen(t)
	for seed := range uint64(testpass.Rounds(60)) {
		c, steps := compare(store, server), oracle.GrantSteps(seed)
		back := slices.ContainsFunc(steps, func(s oracle.GrantStep) bool { return s.After < 0 })
		if back && slices.ContainsFunc(steps[0].Claim.Limits, func(l core.Limit) bool { return l.Algorithm >= core.SlidingWindow }) {
			continue // Redis does not store, when it denies, which entries have expired
		}
		for i, s := range steps {
			c.advance(s.After)
			var err error
			switch {
			case s.Grant != 0:
				err = c.settle([]core.Settlement{{Rule: "r", Key: "k", Limits: s.Claim.Limits, Grant: s.Grant}})
			case s.GiveBack >= 0:
				err = c.settle(c.takes[s.GiveBack])
				delete(c.takes, s.GiveBack)
			default:
				err = c.take(i, []core.Claim{s.Claim})
			}
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
		}
	}
}
