package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func atOnce(n int64) *algorithm.Limit {
	l, _ := algorithm.Compile(algorithm.Limit{Algorithm: algorithm.InFlight, Rate: n, Capacity: n})
	return &l
}

// hold holds one request of a key, with these limits, and returns its asks and instant.
func hold(s *Store, key string, limits ...*algorithm.Limit) ([]query, int64) {
	var asks []query
	for _, l := range limits {
		asks = append(asks, query{Pair: pairOf("rule", key), Limit: l, Cost: 1, Hold: true})
	}
	return asks, s.Instant(decide(s, asks))
}

func end(s *Store, key string, at, final int64, limits ...*algorithm.Limit) {
	var asks []query
	for _, l := range limits {
		asks = append(asks, query{Pair: pairOf("rule", key), Limit: l, Cost: 1, Hold: true, At: at, Final: final})
	}
	settle(s, asks)
}

func ban(s *Store, key string, d time.Duration) {
	settle(s, []query{{Pair: pairOf("rule", key), Ban: d.Microseconds()}})
}

// Otherwise, another request could see one claim of a request settled and the other claim not.
func TestClaimsAreSettledAtOneInstantUnderAllLocks(t *testing.T) {
	var s *Store
	var pairs []Pair
	readings := 0
	now := func() time.Time {
		for _, p := range pairs {
			if sh := s.shard(p); sh.TryLock() {
				sh.Unlock()
				t.Error("the clock is read while a pair is not locked")
			}
		}
		readings++
		return time.Unix(1_000_000+int64(readings), 0)
	}
	s = New(100, now)
	l := atOnce(1)
	asks := []query{
		{Pair: pairOf("rule", "a"), Limit: l, Claim: 0, Cost: 1, Hold: true},
		{Pair: pairOf("rule", "b"), Limit: l, Claim: 1, Cost: 1, Hold: true},
	}
	at := s.Instant(decide(s, asks))
	for i := range asks {
		asks[i].Renew, asks[i].At = true, at
		pairs = append(pairs, asks[i].Pair)
	}
	readings, asks = 0, append(asks, query{Pair: asks[1].Pair, Claim: 2, Ban: 1})
	settle(s, asks)
	expect.True(t, readings == 1 && asks[0].Renewed && asks[0].At == asks[1].At,
		"renewed at %d and %d, by %d readings of the clock", asks[0].At, asks[1].At, readings)
}

// A record that counted as idle since its charge would be dropped at once, and the next request would add it again.
func TestRecordIsIdleFromTheLastReleaseOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, func() time.Time { return time.Now().AddDate(-50, 0, 0) }) // before 1970
		l := atOnce(1)
		_, at := hold(s, "key", l)
		time.Sleep(time.Second)
		end(s, "key", at, 0, l)
		p := pairOf("rule", "key")
		if r := s.shard(p).find(p.id, algorithm.CellsKind); r.Ends() != at+1_000_000 || s.ends[p.id>>(64-shardBits)].Load() > r.Ends() {
			t.Errorf("it is idle from %d on, want %d", r.Ends(), at+1_000_000)
		}
	})
}

// In a full store, holds and bans of a pair must not admit more.
func TestFullStoreSharesHoldsAndBans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := atOnce(2)
		s := New(1, nil)
		take(s, "live", limitOf(t, algorithm.TokenBucket, 1, time.Minute), 1)
		x, y := sharing(s)
		hold(s, x, l)
		hold(s, y, l)
		asks, _ := hold(s, x, l)
		expect.NotEqual(t, asks[0].Retry, 0, "admitted a third request in flight of two pairs that share a record")
		time.Sleep(2 * time.Minute)
		for range 2 { // x has a record of its own now, and y has none
			hold(s, x, l)
		}
		asks, _ = hold(s, x, l)
		expect.NotEqual(t, asks[0].Retry, 0, "admitted a third request in flight of a pair with its own record")
		asks, _ = hold(s, y, l)
		expect.Equal(t, asks[0].Retry, 0, "the holds of a pair with its own record count against a pair that shares a record")
		audit(t, s)
		ban(s, y, time.Hour)
		a := take(s, y, limitOf(t, algorithm.TokenBucket, 9, time.Hour), 1)
		expect.Equal(t, a.Retry, time.Hour.Microseconds(), "a banned pair that shares")
		a = take(s, x, limitOf(t, algorithm.TokenBucket, 9, time.Hour), 1)
		expect.Equal(t, a.Retry, 0, "another pair is banned")
		time.Sleep(3 * time.Minute) // all is idle but the ban
		take(s, y, limitOf(t, algorithm.TokenBucket, 9, time.Minute), 1)
		a = take(s, y, limitOf(t, algorithm.TokenBucket, 9, time.Minute), 1)
		expect.NotEqual(t, a.Retry, 0, "the ban is lost when the pair gets a record of its own")
		audit(t, s)
	})
}

// A pair that has a record of its own for another limit starts from the shared state, with what has ended among its holds.
func TestEndedHoldOfASharedStateCountsForAPairWithARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, nil)
		l := limitOf(t, algorithm.SlidingLog, 9, time.Hour)
		owner, sharer := sharing(s)
		take(s, owner, limitOf(t, algorithm.TokenBucket, 1, time.Hour), 1)
		hold(s, sharer, l)
		time.Sleep(2 * time.Minute)
		a := take(s, owner, l, 9)
		expect.NotEqual(t, a.Retry, 0, "admitted 10 of 9 requests of two pairs: one shares the other's state")
		audit(t, s)
	})
}

func TestFullStoreDropsAPairOnceItsHoldOrBanIsOver(t *testing.T) {
	for _, row := range []struct {
		begin func(*Store)
		more  time.Duration // until it is over, after 59 s
	}{
		{func(s *Store) { hold(s, "busy", atOnce(1)) }, 8 * time.Second},
		{func(s *Store) {
			_, at := hold(s, "busy", atOnce(1))
			time.Sleep(30 * time.Second)
			settle(s, []query{{Pair: pairOf("rule", "busy"), Limit: atOnce(1), Cost: 1, Renew: true, At: at}})
		}, 8 * time.Second},
		{func(s *Store) { ban(s, "busy", time.Minute) }, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(1, nil)
			second := limitOf(t, algorithm.TokenBucket, 1, time.Second)
			row.begin(s)
			time.Sleep(59 * time.Second)
			expect.True(t, !take(s, "early", second, 1).own, "a pair is dropped that holds something or is banned")
			asks, _ := hold(s, "busy", atOnce(1))
			expect.NotEqual(t, asks[0].Retry, 0, "a hold or a ban is lost in a full store")
			time.Sleep(row.more)
			expect.True(t, take(s, "late", second, 1).own, "no room after the end")
			audit(t, s)
		})
	}
}

// A ban of a pair with its own record does not ban the pairs that share a record.
func TestBanInAFullStoreIsForThePairAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, nil)
		l := limitOf(t, algorithm.TokenBucket, 9, time.Hour)
		owner, sharer := sharing(s)
		take(s, owner, l, 1)
		take(s, sharer, l, 1)
		ban(s, owner, time.Minute)
		ban(s, owner, time.Second) // the longer one stays
		a := take(s, owner, l, 1)
		expect.True(t, a.own && a.Retry == 60_000_000, "a banned pair with a record of its own waits for %dµs", a.Retry)
		a = take(s, sharer, l, 1)
		expect.True(t, !a.own && a.Retry == 0, "another pair that shares waits for %dµs", a.Retry)
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
		expect.True(t, take(s, other, second, 1).own, "no room though the only other pair is idle")
		audit(t, s)
	})
}

func TestRequestsThatChargeNothingAddNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, nil)
		l := limitOf(t, algorithm.TokenBucket, 5, time.Hour)
		asks := []query{{Pair: pairOf("rule", "peeker"), Limit: l, Cost: 1, Peek: true}}
		expect.True(t, !decide(s, asks).IsZero() && asks[0].Retry == 0, "%+v, want a peek to be admitted", asks[0])
		end(s, "expired", 0, 1, atOnce(1))
		end(s, "free", 0, 0, l)
		take(s, "key", limitOf(t, algorithm.TokenBucket, 0, time.Hour), 1)
		denied := query{Pair: pairOf("rule", "denied"), Limit: l, Cost: 6}
		decide(s, []query{denied, {Pair: denied.Pair, Limit: l, Claim: 1}, {Pair: pairOf("rule", "trial"), Limit: l, Claim: 2, DryRun: true}})
		keys, shared, held := s.Stats()
		expect.AtMost(t, keys+shared+held, 0, "%d keys, %d shared, %d held", keys, shared, held)
	})
}

// TestEndedHoldKeepsLaterChargesOfOthers checks that a hold that has ended, and is charged to states that its pair shares, does not
// let what others have charged since end earlier.
func TestEndedHoldKeepsLaterChargesOfOthers(t *testing.T) {
	for _, a := range algorithms {
		now := time.Unix(1_800_000_000, 0)
		s := New(1, func() time.Time { return now })
		holder, other := sharing(s)
		l := limitOf(t, a, 5, time.Minute)
		decide(s, []query{{Pair: pairOf("rule", holder), Limit: l, Cost: 1, Hold: true}})
		q := take(s, other, l, 1)
		must.True(t, q.Retry == 0 && !q.own, "not shared")
		now = now.Add(200 * time.Second) // in the window after the next one
		s.charge(pairOf("rule", other), l, 5)
		now = now.Add(time.Second)
		decide(s, []query{{Pair: pairOf("rule", holder), Limit: l, Cost: 1, Peek: true}})
		expect.True(t, s.charge(pairOf("rule", other), l, 0) > 0, "algorithm %d: after the end of the hold, 6 of 5 fit", a)
		audit(t, s)
	}
}

// charge charges cost to the shared state of p without a sweep, which would end the holds of others, as in a large store. It returns how
// long one more request then has to wait.
func (s *Store) charge(p Pair, l *algorithm.Limit, cost int64) (wait int64) {
	run, _ := s.shard(p).of(p.shared)
	state := &algorithm.State{Limit: l, Logs: &s.shard(p).logs, Now: s.now().UnixMicro()}
	state.Pick(run)
	if state.Open(); cost > 0 {
		l.Row.Charge(state, cost)
	}
	return state.WaitFor(1, 0)
}
