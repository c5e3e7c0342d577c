package memory

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// Records move while others are added.
func TestSettlementAfterOthersThatAddRecords(t *testing.T) {
	for _, a := range algorithms {
		synctest.Test(t, func(t *testing.T) {
			s := New(10_000, nil)
			l := limitOf(t, a, 5, time.Hour)
			at := s.Instant(decide(s, []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 3}}))
			var asks []query
			for i := range 3000 {
				asks = append(asks, query{Pair: pairOf("rule", strconv.Itoa(i)), Claim: i, Ban: 1_000_000})
			}
			settle(s, append(asks, query{Pair: pairOf("rule", "key"), Limit: l, Claim: 3000, Cost: 3, At: at}))
			if a := take(s, "key", l, 5); a.Retry != 0 {
				t.Errorf("%d: what was given back still counts: %+v", l.Algorithm, a.Usage)
			}
			audit(t, s)
		})
	}
}

// A charge from before a reset is not given back, because other requests may have taken its place.
func TestChargeFromBeforeAResetIsNotGivenBack(t *testing.T) {
	for _, maxKeys := range []int{1, 100} { // a full store does not keep the pair for that
		for _, a := range algorithms {
			synctest.Test(t, func(t *testing.T) {
				s := New(maxKeys, nil)
				l := limitOf(t, a, 5, time.Hour)
				asks := []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 5}}
				asks[0].At = s.Instant(decide(s, asks))
				reset(s, asks[0].Pair)
				if keys, _, _ := s.Stats(); keys != maxKeys/100 {
					t.Errorf("%d: %d of at most %d keys after a reset", a, keys, maxKeys)
				}
				take(s, "key", l, 5)
				settle(s, asks)
				if q := take(s, "key", l, 1); q.Retry == 0 {
					t.Errorf("%d: what was charged before a reset was given back of what was charged since", a)
				}
				audit(t, s)
			})
		}
	}
}

// A full store does not forget what a hold will charge, even if nobody asks for its pair again.
func TestSweepChargesWhatHasEnded(t *testing.T) {
	for _, a := range algorithms {
		synctest.Test(t, func(t *testing.T) {
			s := New(1, nil)
			l, second := limitOf(t, a, 1, 24*time.Hour), limitOf(t, algorithm.TokenBucket, 1, time.Second)
			time.Sleep(time.Minute)
			hold(s, "holder", l)
			time.Sleep(67 * time.Second)
			if q := take(s, "other", second, 1); q.own {
				t.Errorf("%d: the pair of a hold that has ended was dropped", a)
			}
			if q := take(s, "holder", l, 1); q.Retry == 0 || !q.own {
				t.Errorf("%d: a hold that nobody has settled was not charged: %+v", a, q.Answer)
			}
			audit(t, s)
		})
	}
}

// A store that is not full drops records that have been idle for a while. It does not move holds that end later.
func TestSweepLeavesAHoldWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1000, nil)
		l := limitOf(t, algorithm.FixedWindow, 1, 24*time.Hour)
		for i := range 900 {
			if i == 450 {
				hold(s, "key", l)
			}
			take(s, strconv.Itoa(i), limitOf(t, algorithm.TokenBucket, 1, time.Millisecond), 1)
			if i < 450 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(time.Minute - time.Second)
		if _, _, held := s.Stats(); held != 1 {
			t.Errorf("%d are held after 59s, want the hold that lasts a minute", held)
		}
	})
}
