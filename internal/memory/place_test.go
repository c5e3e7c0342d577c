package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// full returns a store that has room again after a second, and two keys that share records until then.
func full(t *testing.T) (s *Store, x, y string) {
	t.Helper()
	s = New(1, nil)
	x, y = sharing(s)
	for i := 0; ; i++ { // in a shard of its own, so that the end of its record says nothing of others
		if live := string(rune('a' + i)); s.shard(s.Pair("rule", live)) != s.shard(s.Pair("rule", x)) {
			take(s, live, limitOf(t, algorithm.TokenBucket, 1, time.Second), 1)
			return s, x, y
		}
	}
}

func TestPairTakesItsHoldsAlongToARecordOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, x, _ := full(t)
		hold(s, x, atOnce(2))
		time.Sleep(2 * time.Second)
		if a := take(s, x, limitOf(t, algorithm.TokenBucket, 9, time.Hour), 1); !a.own || a.Usage.Remaining != 7 {
			t.Errorf("%+v, want 1 charged and 1 held of 9", a.Usage)
		}
		for n, admitted := range []bool{true, false} {
			if asks, _ := hold(s, x, atOnce(2)); (asks[0].Retry == 0) != admitted {
				t.Errorf("hold %d beside the one that was shared: retry %d", n, asks[0].Retry)
			}
		}
		audit(t, s)
	})
}

// The pair gets records of its own while it holds something, but the state of the limit that the hold is of stays shared.
func TestEndOfAHoldIsChargedToStatesThatAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, x, _ := full(t)
		l := limitOf(t, algorithm.FixedWindow, 9, 24*time.Hour)
		hold(s, x, l)
		time.Sleep(2 * time.Second)
		if a := take(s, x, limitOf(t, algorithm.TokenBucket, 9, time.Hour), 1); !a.own {
			t.Fatal("the pair has no record of its own")
		}
		time.Sleep(66 * time.Second)
		if a := take(s, x, l, 1); a.Usage.Remaining > 7 {
			t.Errorf("%d of 9 remain after a hold has ended and one more was charged", a.Usage.Remaining)
		}
		audit(t, s)
	})
}

func TestPairTakesItsBanAlongToARecordOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, x, _ := full(t)
		l := limitOf(t, algorithm.TokenBucket, 9, time.Hour)
		ban(s, x, time.Minute)
		time.Sleep(2 * time.Second)
		end(s, x, NoInstant, 1, l) // a charge that is made whatever is in the way
		if a := take(s, x, l, 1); !a.own || a.Retry != 58_000_000 {
			t.Errorf("a banned pair that has a record of its own now waits for %dµs", a.Retry)
		}
		audit(t, s)
	})
}

// A dry run that does not fit is given a record all the same.
func TestCopyOfASharedRecordIsDroppedWhenItIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, x, y := full(t)
		l := limitOf(t, algorithm.TokenBucket, 1, time.Minute)
		take(s, x, l, 1)
		time.Sleep(2 * time.Second)
		asks := []query{{Pair: s.Pair("rule", x), Limit: l, Cost: 1, DryRun: true}}
		if decide(s, asks); asks[0].Retry == 0 {
			t.Errorf("%+v, want a dry run that does not fit", asks[0])
		}
		time.Sleep(time.Minute)
		if a := take(s, y, l, 1); !a.own {
			t.Error("no room though all is idle")
		}
		audit(t, s)
	})
}
