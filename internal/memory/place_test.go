package memory

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
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
		a := take(s, x, limitOf(t, algorithm.TokenBucket, 9, time.Hour), 1)
		expect.True(t, a.own && a.Usage.Remaining == 7, "%+v, want 1 charged and 1 held of 9", a.Usage)
		for n, admitted := range []bool{true, false} {
			asks, _ := hold(s, x, atOnce(2))
			expect.Equal(t, asks[0].Retry == 0, admitted, "hold %d besides the shared hold: retry %d", n, asks[0].Retry)
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
		a := take(s, x, limitOf(t, algorithm.TokenBucket, 9, time.Hour), 1)
		must.True(t, a.own, "the pair has no record of its own")
		time.Sleep(66 * time.Second)
		if a := take(s, x, l, 1); a.Usage.Remaining > 7 {
			t.Errorf("%d of 9 remain after a hold has ended and one more was charged", a.Usage.Remaining)
		}
		audit(t, s)
	})
}

// The hold of the pair ends later than the hold that others share, and both are charged to the shared state at once.
func TestEndOfASharedHoldMovesNoLaterCharge(t *testing.T) {
	for _, a := range algorithms {
		synctest.Test(t, func(t *testing.T) {
			s, x, y := full(t)
			l := limitOf(t, a, 3, 20*time.Second)
			take(s, y, l, 1)
			hold(s, y, l)
			time.Sleep(36 * time.Second)
			hold(s, x, l)
			time.Sleep(74 * time.Second)
			expect.NotEqual(t, take(s, x, l, 3).Retry, 0, "%d: 3 of 3 are admitted 8s after a hold has ended", a)
			audit(t, s)
		})
	}
}

func TestPairTakesItsBanAlongToARecordOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, x, _ := full(t)
		l := limitOf(t, algorithm.TokenBucket, 9, time.Hour)
		ban(s, x, time.Minute)
		time.Sleep(2 * time.Second)
		end(s, x, NoInstant, 1, l) // a charge that is made whatever is in the way
		a := take(s, x, l, 1)
		expect.True(t, a.own && a.Retry == 58_000_000, "a banned pair that has a record of its own now waits for %dµs", a.Retry)
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
		decide(s, asks)
		expect.NotEqual(t, asks[0].Retry, 0, "%+v (a dry run that does not fit)", asks[0])
		time.Sleep(time.Minute)
		expect.True(t, take(s, y, l, 1).own, "no room though all is idle")
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
			audit(t, s)
			must.True(t, !t.Failed(), "after round %d, %+v", round, asks)
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
			keys, shared, _ := s.Stats()
			expect.True(t, keys == 1 && shared == 1, "%d keys, %d shared, want 1 of each", keys, shared)
			time.Sleep(2 * time.Second)
			expect.Equal(t, take(s, mover, l, 1).Usage.Remaining, 2, "%d: remaining to the pair that has a record of its own now", a)
			audit(t, s)
			expect.Equal(t, take(s, stayer, l, 3).Usage.Remaining, 0, "%d: remaining to those that still share", a)
			if got := take(s, mover, l, 2); got.Retry != 0 || got.Usage.Remaining != 0 {
				t.Errorf("%d: the others charged the pair that has moved: %+v", a, got)
			}
			audit(t, s)
		})
	}
}

func TestPairWithRecordsOfItsOwnSharesNothing(t *testing.T) {
	for _, a := range algorithms {
		day, second := limitOf(t, a, 9, 24*time.Hour), limitOf(t, a, 2, time.Second)
		synctest.Test(t, func(t *testing.T) {
			s := New(1, nil)
			x, y := sharing(s)
			take(s, x, day, 1)
			take(s, x, second, 1)
			time.Sleep(2 * time.Second)
			take(s, y, second, 2)
			hold(s, y, day, atOnce(1))
			take(s, y, day, 8)
			asks, _ := hold(s, x, day, second, atOnce(1))
			expect.True(t, asks[0].Usage.Remaining == 7 && asks[1].Retry == 0 && asks[2].Retry == 0, "%d: %+v", a, asks)
			reset(s, pairOf("rule", x))
			expect.Equal(t, take(s, x, day, 8).Retry, 0, "%d: the wait after a reset", a)
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
			asks := both(3)
			expect.True(t, asks[0].Retry != 0 && asks[1].Retry != 0, "%d: two requests of 3 fit the 5 that both share", a)
			if asks := both(2); asks[0].Retry != 0 || asks[1].Usage.Remaining != 1 {
				t.Errorf("%d: %+v, want two requests of 2 to fit, and 1 to remain", a, asks)
			}
			audit(t, s)
			s = New(1, nil)
			take(s, "live", l, 1)
			expect.Equal(t, both(2)[1].Usage.Remaining, 1, "%d: what two requests leave of the state that they add", a)
		})
	}
}

func TestChargeOfADroppedPairIsNotGivenBackToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, nil)
		x, y := sharing(s)
		l := limitOf(t, algorithm.TokenBucket, 10, 10*time.Second)
		take(s, x, l, 3)
		time.Sleep(time.Second)
		take(s, y, l, 10)
		asks := []query{{Pair: pairOf("rule", x), Limit: l, Cost: 5}}
		asks[0].At = s.Instant(decide(s, asks))
		time.Sleep(8 * time.Second)
		take(s, "new", limitOf(t, algorithm.TokenBucket, 1, time.Hour), 1)
		settle(s, asks)
		expect.Equal(t, take(s, y, l, 1).Usage.Remaining, 7, "remaining of 10, 8s after all were used")
		asks[0] = query{Pair: pairOf("rule", y), Limit: l, Cost: 1}
		asks[0].At = s.Instant(decide(s, asks))
		settle(s, asks)
		expect.Equal(t, take(s, y, l, 1).Usage.Remaining, 6, "remaining after a refund of what was charged since")
	})
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
		a := take(s, x, strict, 1)
		expect.NotEqual(t, a.Retry, 0, "a request is admitted after 10 of 10 an hour: %+v", a)
	})
}

func TestPairKeepsABoundedNumberOfRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, nil)
		for i := range 300 {
			l := limitOf(t, algorithm.TokenBucket, 1, time.Duration(i+1)*time.Hour)
			must.Equal(t, take(s, "key", l, 1).Retry, 0, "tier %d is denied", i)
			must.True(t, take(s, "key", l, 1).Retry != 0, "tier %d is forgotten", i)
		}
		run, _ := s.shard(pairOf("rule", "key")).of(pairOf("rule", "key").id)
		expect.Equal(t, len(run), maxStates, "records")
		for i := range 300 {
			l := limitOf(t, algorithm.TokenBucket, 1, time.Duration(i+1)*time.Hour)
			expect.NotEqual(t, take(s, "key", l, 1).Retry, 0, "tier %d is forgotten after others", i)
		}
		expect.Equal(t, take(s, "key", limitOf(t, algorithm.TokenBucket, 2, time.Hour), 1).Usage.Remaining, 0, "remaining at another rate of a tier")
		audit(t, s)
	})
}

func TestAllShardsAreLockedAtOnce(t *testing.T) {
	s := New(100, nil)
	l := limitOf(t, algorithm.TokenBucket, 9, time.Hour)
	var asks []query
	for i := range 3 {
		asks = append(asks, query{Pair: pairOf("rule", strconv.Itoa(i)), Limit: l, Claim: i, Cost: 1})
	}
	decide(s, asks)
	for i := range asks {
		sh := s.shard(asks[i].Pair)
		sh.Lock()
		done := make(chan bool)
		go func() {
			decide(s, asks)
			close(done)
		}()
		for !tryAll(s, asks, sh) { // until the decision holds or waits for all it can get
			time.Sleep(time.Microsecond)
		}
		select {
		case <-done:
			t.Errorf("decided though shard %d was locked", i)
		default:
		}
		sh.Unlock()
		<-done
	}
}

// tryAll reports whether every shard of asks that comes before sh is locked by a decision.
func tryAll(s *Store, asks []query, sh *shard) bool {
	for i := range s.shards {
		if &s.shards[i] == sh {
			return true
		}
		for j := range asks {
			if s.shard(asks[j].Pair) == &s.shards[i] && s.shards[i].TryLock() {
				s.shards[i].Unlock()
				return false
			}
		}
	}
	return true
}

// A room that kept pointers to records would keep an old table in memory, and a room for a large request would stay large.
func TestRoomKeepsNeitherRecordsNorTheSizeOfALargeRequest(t *testing.T) {
	s := New(10_000, nil)
	l := limitOf(t, algorithm.TokenBucket, 9, time.Hour)
	for _, keys := range []int{1, 3, maxRoom, maxRoom + 1, 1000} {
		var asks []query
		for i := range keys {
			asks = append(asks, query{Pair: pairOf("rule", strconv.Itoa(i)), Limit: l, Claim: i, Cost: 1})
		}
		decide(s, asks)
		hold(s, "held", l)
		for i := range s.shards {
			room := s.shards[i].room.asks
			must.True(t, cap(room) <= maxRoom, "%d keys: a room for %d asks is kept, want at most %d", keys, cap(room), maxRoom)
			for _, a := range room {
				must.True(t, a.Limit == nil && a.Stored == nil && a.Run == nil && a.Cells == nil,
					"%d keys: the room of shard %d keeps a limit or a record", keys, i)
			}
		}
	}
}

// A bucket keeps its tick in bits in which other algorithms have their code. It is still found by its own kind only.
func TestKindsOfOnePeriodDiffer(t *testing.T) {
	for _, a := range algorithms {
		for _, b := range algorithms {
			for code := range uint64(3) {
				p := record{Kind: limitOf(t, a, 5, time.Hour).Kind}
				if a == algorithm.TokenBucket {
					p.Kind |= code
				}
				expect.Equal(t, p.Is(limitOf(t, b, 5, time.Hour).Kind), a == b, "a state of algorithm %d is found by the kind of %d", a, b)
			}
			if other := limitOf(t, b, 5, time.Minute); a == b && (&record{Kind: limitOf(t, a, 5, time.Hour).Kind}).Is(other.Kind) {
				t.Errorf("a state of algorithm %d is found by another period", a)
			}
		}
	}
}

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
			a := take(s, "key", l, 5)
			expect.Equal(t, a.Retry, 0, "%d: what was given back still counts: %+v", l.Algorithm, a.Usage)
			audit(t, s)
		})
	}
}

// A charge from before a reset is not given back, because other requests may have taken its place.
func TestChargeFromBeforeAResetIsNotGivenBack(t *testing.T) {
	for _, maxKeys := range []int{1, 100} { // a full store may drop the pair
		for _, a := range algorithms {
			synctest.Test(t, func(t *testing.T) {
				s := New(maxKeys, nil)
				l := limitOf(t, a, 5, time.Hour)
				asks := []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 5}}
				asks[0].At = s.Instant(decide(s, asks))
				reset(s, asks[0].Pair)
				keys, _, _ := s.Stats()
				expect.Equal(t, keys, 1, "%d: of at most %d keys after a reset", a, maxKeys)
				take(s, "key", l, 5)
				settle(s, asks)
				expect.NotEqual(t, take(s, "key", l, 1).Retry, 0, "%d: what was charged before a reset was given back of what was charged since", a)
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
			q := take(s, "other", second, 1)
			expect.True(t, !q.own, "%d: the pair of a hold that has ended was dropped", a)
			q = take(s, "holder", l, 1)
			expect.True(t, q.Retry != 0 && q.own, "%d: a hold that nobody has settled was not charged: %+v", a, q.Answer)
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
		_, _, held := s.Stats()
		expect.Equal(t, held, 1, "are held after 59s (the hold that lasts a minute)")
	})
}
