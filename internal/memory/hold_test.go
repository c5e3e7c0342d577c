package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

func atOnce(n int64) *algorithm.Limit {
	l, _ := algorithm.Compile(algorithm.Limit{Algorithm: algorithm.InFlight, Rate: n, Capacity: n})
	return &l
}

// hold holds one request of a key, with these limits, and returns its asks and instant.
func hold(s *Store, key string, limits ...*algorithm.Limit) ([]query, int64) {
	var asks []query
	for _, l := range limits {
		asks = append(asks, query{Pair: s.Pair("rule", key), Limit: l, Cost: 1, Hold: true})
	}
	return asks, s.Instant(decide(s, asks))
}

// end settles what was held at an instant.
func end(s *Store, key string, at, final int64, limits ...*algorithm.Limit) {
	var asks []query
	for _, l := range limits {
		asks = append(asks, query{Pair: s.Pair("rule", key), Limit: l, Cost: 1, Hold: true, At: at, Final: final})
	}
	settle(s, asks)
}

// renew keeps a hold, and reports whether that was there.
func renew(s *Store, key string, at int64) (int64, bool) {
	asks := []query{{Pair: s.Pair("rule", key), Limit: atOnce(1), Cost: 1, Renew: true, At: at}}
	settle(s, asks)
	return asks[0].At, asks[0].Renewed
}

func ban(s *Store, key string, d time.Duration) {
	settle(s, []query{{Pair: s.Pair("rule", key), Ban: d.Microseconds()}})
}

func TestHoldExpiresUnlessItIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, nil)
		l := atOnce(1)
		_, at := hold(s, "stream", l)
		hold(s, "crashed", l)
		for passed := time.Duration(0); passed < 3*time.Minute; passed += 20 * time.Second {
			if asks, _ := hold(s, "stream", l); asks[0].Retry != algorithm.HoldHint {
				t.Fatalf("after %v: a second stream is admitted: %+v", passed, asks[0].Retry)
			}
			if asks, _ := hold(s, "crashed", l); (asks[0].Retry == 0) != (passed >= 66*time.Second && passed < 86*time.Second) && passed < 100*time.Second {
				t.Errorf("after %v: Retry is %d where the holder has crashed", passed, asks[0].Retry)
			}
			time.Sleep(20 * time.Second)
			now, ok := renew(s, "stream", at)
			if !ok || !s.Time(now).Equal(time.Now()) {
				t.Fatalf("after %v: renewed at %v, %t", passed, now, ok)
			}
			at = now
		}
		end(s, "stream", at, 1, l)
		if asks, _ := hold(s, "stream", l); asks[0].Retry != 0 {
			t.Errorf("denied after the stream has ended: %+v", asks[0])
		}
		if _, ok := renew(s, "unknown", at); ok {
			t.Error("a hold was renewed that is not there")
		}
		audit(t, s)
	})
}

func TestOverlappingRequestsThatCostNothingAreNeverDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, nil)
		l := limitOf(t, algorithm.TokenBucket, 20, 15*time.Minute)
		var open []int64
		for i := range 72_000 {
			asks, at := hold(s, "key", l)
			if asks[0].Retry != 0 {
				t.Fatalf("request %d is denied", i)
			}
			if open = append(open, at); len(open) == 20 {
				end(s, "key", open[0], 0, l)
				open = open[1:]
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// The fast path knows neither holds nor bans.
func TestKnownPairThatHoldsOrIsBanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, nil)
		l := limitOf(t, algorithm.TokenBucket, 5, time.Hour)
		take(s, "holds", l, 1)
		take(s, "banned", l, 1)
		_, at := hold(s, "holds", l)
		ban(s, "banned", time.Second)
		if a := take(s, "holds", l, 4); a.Retry == 0 {
			t.Errorf("what is held does not count: %+v", a.Usage)
		}
		if a := take(s, "banned", l, 1); a.Retry != 1_000_000 {
			t.Errorf("a banned pair is told to wait for %dµs", a.Retry)
		}
		end(s, "holds", at, 0, l)
		time.Sleep(time.Second)
		if a := take(s, "holds", l, 4); a.Retry != 0 {
			t.Errorf("what was given back still counts: %+v", a.Usage)
		}
		if a := take(s, "banned", l, 4); a.Retry != 0 {
			t.Errorf("denied after the ban: %d", a.Retry)
		}
	})
}

func TestResetKeepsHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, nil)
		l := limitOf(t, algorithm.SlidingLog, 5, time.Hour)
		take(s, "key", l, 2)
		hold(s, "key", l)
		ban(s, "key", time.Second)
		s.Reset(s.Pair("rule", "key"))
		if a := take(s, "key", l, 1); a.Retry != 0 || a.Usage.Remaining != 3 {
			t.Errorf("%+v, want 1 charged and 1 held of 5", a.Usage)
		}
		audit(t, s)
	})
}

// Else another request would see one claim of a request settled and the other not.
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
		{Pair: s.Pair("rule", "a"), Limit: l, Claim: 0, Cost: 1, Hold: true},
		{Pair: s.Pair("rule", "b"), Limit: l, Claim: 1, Cost: 1, Hold: true},
	}
	at := s.Instant(decide(s, asks))
	for i := range asks {
		asks[i].Renew, asks[i].At = true, at
		pairs = append(pairs, asks[i].Pair)
	}
	readings, asks = 0, append(asks, query{Pair: asks[1].Pair, Claim: 2, Ban: 1})
	settle(s, asks)
	if readings != 1 || !asks[0].Renewed || asks[0].At != asks[1].At {
		t.Errorf("renewed at %d and %d, by %d readings of the clock", asks[0].At, asks[1].At, readings)
	}
}

// A record that is idle since long ago would be dropped at once, and the next request of the client would add it anew.
func TestRecordIsIdleFromTheLastReleaseOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, nil)
		l := atOnce(1)
		_, at := hold(s, "key", l)
		time.Sleep(time.Second)
		end(s, "key", at, 0, l)
		p := s.Pair("rule", "key")
		if r := s.shard(p).find(p.id, algorithm.HoldKind); r.ends() != at+1_000_000 || s.ends[p.id>>(64-shardBits)].Load() > r.ends() {
			t.Errorf("it is idle from %d on, want %d", r.ends(), at+1_000_000)
		}
	})
}
