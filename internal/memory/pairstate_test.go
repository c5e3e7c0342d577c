package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

func TestExpiredHoldIsNeitherRenewedNorInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, nil)
		_, at := hold(s, "key", atOnce(1))
		time.Sleep(66 * time.Second)
		if _, ok := renew(s, "key", at); ok {
			t.Error("a hold is renewed 66s after it was made")
		}
		if asks, _ := hold(s, "key", atOnce(1)); asks[0].Retry != 0 {
			t.Error("a hold that has expired is in the way")
		}
		audit(t, s)
	})
}

func TestFullStoreDropsAPairWhoseHoldHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, nil)
		second := limitOf(t, algorithm.TokenBucket, 1, time.Second)
		hold(s, "holder", atOnce(1))
		time.Sleep(59 * time.Second)
		if a := take(s, "early", second, 1); a.own {
			t.Error("a pair is dropped that holds something")
		}
		if asks, _ := hold(s, "holder", atOnce(1)); asks[0].Retry == 0 {
			t.Error("a hold is lost in a full store")
		}
		time.Sleep(8 * time.Second)
		if a := take(s, "late", second, 1); !a.own {
			t.Error("no room after the hold has expired")
		}
		audit(t, s)
	})
}

// A ban of a pair with a record of its own is no ban of those that share one.
func TestBanInAFullStoreIsForThePairAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, nil)
		l := limitOf(t, algorithm.TokenBucket, 9, time.Hour)
		owner, sharer := sharing(s)
		take(s, owner, l, 1)
		take(s, sharer, l, 1)
		ban(s, owner, time.Minute)
		ban(s, owner, time.Second) // the longer one stays
		if a := take(s, owner, l, 1); !a.own || a.Retry != 60_000_000 {
			t.Errorf("a banned pair with a record of its own waits for %dµs", a.Retry)
		}
		if a := take(s, sharer, l, 1); a.own || a.Retry != 0 {
			t.Errorf("another pair that shares waits for %dµs", a.Retry)
		}
		audit(t, s)
	})
}

// The clock went back between two requests. Nothing drains from a limit of rate 0.
func TestClockGoesBackUnderALimitOfRateZero(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := New(100, func() time.Time { return now })
	take(s, "key", limitOf(t, algorithm.TokenBucket, 5, time.Minute), 5)
	now = now.Add(-time.Second)
	if a := take(s, "key", limitOf(t, algorithm.TokenBucket, 0, time.Minute), 1); a.Retry != Never {
		t.Errorf("%+v, want a denial for ever", a)
	}
	audit(t, s)
}

func TestFullStoreDropsAPairWhoseBanIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, nil)
		second := limitOf(t, algorithm.TokenBucket, 1, time.Second)
		ban(s, "banned", time.Minute)
		time.Sleep(59 * time.Second)
		if a := take(s, "early", second, 1); a.own {
			t.Error("a pair is dropped that is banned")
		}
		time.Sleep(time.Second)
		if a := take(s, "late", second, 1); !a.own {
			t.Error("no room after the ban is over")
		}
		audit(t, s)
	})
}

// The shard of the new pair is locked already.
func TestFullStoreFindsAnIdlePairInTheShardOfTheNewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, nil)
		second := limitOf(t, algorithm.TokenBucket, 1, time.Second)
		idle, other := sharing(s)
		take(s, idle, second, 1)
		time.Sleep(time.Second)
		if a := take(s, other, second, 1); !a.own {
			t.Error("no room though the only other pair is idle")
		}
		audit(t, s)
	})
}

func TestWhatChargesNothingAddsNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, nil)
		l := limitOf(t, algorithm.TokenBucket, 5, time.Hour)
		if asks := []query{{Pair: s.Pair("rule", "peeker"), Limit: l, Cost: 1, Peek: true}}; decide(s, asks).IsZero() || asks[0].Retry != 0 {
			t.Errorf("%+v, want a peek to be admitted", asks[0])
		}
		end(s, "expired", 0, 1, atOnce(1))
		end(s, "free", 0, 0, l)
		take(s, "key", limitOf(t, algorithm.TokenBucket, 0, time.Hour), 1)
		if keys, shared, held := s.Stats(); keys+shared+held > 0 {
			t.Errorf("%d keys, %d shared, %d held", keys, shared, held)
		}
	})
}
