package memory

import (
	"math/rand/v2"
	"strconv"
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
		if live := string(rune('a' + i)); s.shard(pairOf("rule", live)) != s.shard(pairOf("rule", x)) {
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
				t.Errorf("hold %d besides the shared hold: retry %d", n, asks[0].Retry)
			}
		}
		audit(t, s)
	})
}

// The pair gets records of its own while it holds something, but the state of the held limit stays shared.
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

// A dry run that does not fit still gets a record.
func TestCopyOfASharedRecordIsDroppedWhenItIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, x, y := full(t)
		l := limitOf(t, algorithm.TokenBucket, 1, time.Minute)
		take(s, x, l, 1)
		time.Sleep(2 * time.Second)
		asks := []query{{Pair: pairOf("rule", x), Limit: l, Cost: 1, DryRun: true}}
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

func TestCountersEqualWhatIsStored(t *testing.T) {
	var limits []*algorithm.Limit
	for _, a := range algorithms {
		limits = append(limits, limitOf(t, a, 5, time.Second), limitOf(t, a, 5, 2*time.Second))
	}
	synctest.Test(t, func(t *testing.T) {
		s := New(15, nil)
		for round := range 2000 {
			var asks []query
			for claim := range 1 + rand.IntN(3) {
				pair := pairOf("rule", strconv.Itoa(rand.IntN(60)))
				for i := rand.IntN(len(limits)); i < len(limits) && rand.IntN(4) > 0; i++ {
					asks = append(asks, query{Pair: pair, Limit: limits[i], Claim: claim, Cost: 1 + rand.Int64N(3), DryRun: claim == 2})
				}
			}
			at := decide(s, asks)
			switch rand.IntN(8) {
			case 0, 1:
				for i := range asks {
					asks[i].At, asks[i].Final = s.Instant(at), rand.Int64N(5)
				}
				settle(s, asks)
			case 2:
				reset(s, pairOf("rule", strconv.Itoa(rand.IntN(60))))
			case 3, 4:
				time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
			}
			if audit(t, s); t.Failed() {
				t.Fatalf("after round %d, %+v", round, asks)
			}
		}
	})
}

func TestPairCopiesTheSharedStateToItsOwn(t *testing.T) {
	for _, a := range algorithms {
		l := limitOf(t, a, 5, time.Minute)
		synctest.Test(t, func(t *testing.T) {
			s := New(1, nil)
			take(s, "idle after a second", limitOf(t, algorithm.TokenBucket, 1, time.Second), 1)
			mover, stayer := sharing(s)
			take(s, mover, l, 2)
			if keys, shared, _ := s.Stats(); keys != 1 || shared != 1 {
				t.Errorf("%d keys, %d shared, want 1 of each", keys, shared)
			}
			time.Sleep(2 * time.Second)
			if got := take(s, mover, l, 1).Usage.Remaining; got != 2 {
				t.Errorf("%d: %d remain to the pair that has a record of its own now, want 2", a, got)
			}
			audit(t, s)
			if got := take(s, stayer, l, 3).Usage.Remaining; got != 0 {
				t.Errorf("%d: %d remain to those that still share, want 0", a, got)
			}
			if got := take(s, mover, l, 2); got.Retry != 0 || got.Usage.Remaining != 0 {
				t.Errorf("%d: the others charged the pair that has moved: %+v", a, got)
			}
			audit(t, s)
		})
	}
}

func TestPairsThatShareAreChargedTheirSum(t *testing.T) {
	for _, a := range algorithms {
		l := limitOf(t, a, 5, time.Hour)
		synctest.Test(t, func(t *testing.T) {
			s := New(1, nil)
			take(s, "live", l, 1)
			x, y := sharing(s)
			both := func(cost int64) []query {
				asks := []query{{Pair: pairOf("rule", x), Limit: l, Cost: cost}, {Pair: pairOf("rule", y), Limit: l, Claim: 1, Cost: cost}}
				decide(s, asks)
				return asks
			}
			if asks := both(3); asks[0].Retry == 0 || asks[1].Retry == 0 {
				t.Errorf("%d: two requests of 3 fit the 5 that both share", a)
			}
			if asks := both(2); asks[0].Retry != 0 || asks[1].Usage.Remaining != 1 {
				t.Errorf("%d: %+v, want two requests of 2 to fit, and 1 to remain", a, asks)
			}
			audit(t, s)
		})
	}
}

func TestSharedBucketDrainsAtTheSlowestRate(t *testing.T) {
	strict, lax := limitOf(t, algorithm.TokenBucket, 10, time.Hour), limitOf(t, algorithm.TokenBucket, 10_000_000, time.Hour)
	synctest.Test(t, func(t *testing.T) {
		s := New(1, nil)
		take(s, "live", strict, 1)
		x, y := sharing(s)
		take(s, x, strict, 10)
		for range 5 {
			take(s, y, lax, 1)
			decide(s, []query{{Pair: pairOf("rule", y), Limit: lax, Cost: 1, Peek: true}})
			time.Sleep(time.Second)
			decide(s, []query{{Pair: pairOf("rule", y), Limit: lax, Cost: 1, Peek: true}})
		}
		if a := take(s, x, strict, 1); a.Retry == 0 {
			t.Errorf("a request is admitted after 10 of 10 an hour: %+v", a)
		}
	})
}

func TestPairKeepsABoundedNumberOfRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, nil)
		for i := range 300 {
			l := limitOf(t, algorithm.TokenBucket, 1, time.Duration(i+1)*time.Hour)
			if a := take(s, "key", l, 1); a.Retry != 0 {
				t.Fatalf("tier %d is denied", i)
			}
			if a := take(s, "key", l, 1); a.Retry == 0 {
				t.Fatalf("tier %d is forgotten", i)
			}
		}
		if run, _ := s.shard(pairOf("rule", "key")).of(pairOf("rule", "key").id); len(run) != maxStates {
			t.Errorf("%d records, want %d", len(run), maxStates)
		}
		for i := range 300 {
			l := limitOf(t, algorithm.TokenBucket, 1, time.Duration(i+1)*time.Hour)
			if a := take(s, "key", l, 1); a.Retry == 0 {
				t.Errorf("tier %d is forgotten after others", i)
			}
		}
		audit(t, s)
	})
}
