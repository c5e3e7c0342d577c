package memory

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// Take decides in another way what takePlain and TakeOne refuse, so only this test tells whether they take what they are for.
func TestWhatIsPlain(t *testing.T) {
	bucket := func(i int) *algorithm.Limit {
		return limitOf(t, algorithm.TokenBucket, 9, time.Duration(i+1)*time.Hour)
	}
	for why, row := range map[string]struct {
		pairs, limits int
		change        func(s *Store, asks []Ask)
		takes         bool
	}{
		"one limit":                        {1, 1, nil, true},
		"many limits of many pairs":        {5, 9, nil, true},
		"a peek":                           {1, 1, func(_ *Store, asks []Ask) { asks[0].Peek = true }, true},
		"a peek among others":              {1, 2, func(_ *Store, asks []Ask) { asks[1].Peek = true }, true},
		"not the same state twice":         {1, 2, func(_ *Store, asks []Ask) { asks[1] = asks[0] }, false},
		"not one state in two claims":      {2, 1, func(_ *Store, asks []Ask) { asks[1] = asks[0] }, false},
		"not a state that is not there":    {1, 2, func(_ *Store, asks []Ask) { asks[1].Limit = bucket(70) }, false},
		"not the only state if not there":  {1, 1, func(_ *Store, asks []Ask) { asks[0].Limit = bucket(70) }, false},
		"not a bucket with another rate":   {1, 1, func(_ *Store, asks []Ask) { asks[0].Limit = limitOf(t, algorithm.TokenBucket, 8, time.Hour) }, false},
		"not a bucket with coarser ticks":  {1, 1, func(_ *Store, asks []Ask) { asks[0].Limit = &algorithm.Limit{Rate: 9, Kind: bucket(0).Kind, Code: 1} }, false},
		"not a bucket asked at two rates":  {1, 1, func(s *Store, asks []Ask) { recordOf(s, &asks[0]).kind |= 65 << slowestAt }, false},
		"not what a pair that holds has":   {1, 2, func(s *Store, asks []Ask) { s.shard(asks[0].Pair).add(asks[0].Pair, algorithm.HoldKind) }, false},
		"not what a banned pair has":       {1, 1, func(s *Store, asks []Ask) { s.shard(asks[0].Pair).add(asks[0].Pair, algorithm.BanKind) }, false},
		"none of several if one is missed": {3, 1, func(_ *Store, asks []Ask) { asks[2].Pair.id++ }, false},
	} {
		s := New(100, nil)
		var asks []Ask
		for p := range row.pairs {
			for i := range row.limits {
				asks = append(asks, Ask{Pair: s.Pair("rule", strconv.Itoa(p)), Limit: bucket(i), Claim: p, Cost: 1})
			}
		}
		known := slices.Clone(asks)
		if decided(s, known) {
			t.Errorf("%s: decided though nothing is known", why)
		}
		s.Take(asks)
		if row.change != nil {
			row.change(s, known)
		}
		ok := decided(s, known)
		if ok != row.takes {
			t.Errorf("%s: decided: %t", why, ok)
		}
		for i := range asks {
			left := int64(8)
			if ok && !known[i].Peek {
				left = 7
			}
			if a := take(s, strconv.Itoa(asks[i].Claim), asks[i].Limit, 1); row.takes && a.Usage.Remaining != left-1 {
				t.Errorf("%s: %d remain, want %d", why, a.Usage.Remaining, left-1)
			}
		}
	}
}

// decided decides asks by TakeOne or takePlain, and reports whether these could.
func decided(s *Store, asks []Ask) (ok bool) {
	if a := &asks[0]; len(asks) == 1 {
		_, _, _, ok = s.TakeOne(a.Pair, a.Limit, a.Cost, a.Peek)
		return ok
	}
	_, ok = s.takePlain(asks)
	return ok
}

func TestWhatTakePlainAdds(t *testing.T) {
	l := limitOf(t, algorithm.TokenBucket, 9, time.Minute)
	for why, row := range map[string]struct {
		cost  int64
		peek  bool
		begin func(s *Store, p Pair)
		adds  bool
	}{
		"a pair that has no record":                {9, false, func(*Store, Pair) {}, true},
		"none for a peek":                          {1, true, func(*Store, Pair) {}, false},
		"none for what never fits":                 {10, false, func(*Store, Pair) {}, false},
		"none for a pair that holds something":     {1, false, func(s *Store, p Pair) { s.shard(p).add(p, algorithm.HoldKind) }, false},
		"none in a full store":                     {1, false, func(s *Store, _ Pair) { s.pairs.Store(s.maxKeys) }, false},
		"none where the pair might share a record": {1, false, func(s *Store, p Pair) { s.shard(p).shared++ }, false},
	} {
		s := New(100, func() time.Time { return time.UnixMicro(-1) })
		p := s.Pair("rule", "key")
		row.begin(s, p)
		keys, records := s.pairs.Load(), s.shard(p).count
		asks := []Ask{{Pair: p, Limit: l, Cost: row.cost, Peek: row.peek}}
		_, ok := s.takePlain(asks)
		added := s.shard(p).count > records
		if ok != row.adds || added != row.adds || added != (s.pairs.Load() > keys) {
			t.Errorf("%s: decided: %t, added: %t, %d keys after %d", why, ok, added, s.pairs.Load(), keys)
		}
		if a := &asks[0]; ok && (a.Retry != 0 || a.Usage.Remaining != 9-row.cost) {
			t.Errorf("%s: retry %d, %d remain", why, a.Retry, a.Usage.Remaining)
		}
	}
}

func recordOf(s *Store, a *Ask) *record { return s.shard(a.Pair).find(a.Pair.id, a.Limit.Kind) }

// A state that is later than a clock which was replaced has to follow it.
func TestNothingIsKnownWhenAReplacedClockWentBack(t *testing.T) {
	for keys := 1; keys <= 3; keys++ {
		now := time.UnixMicro(5_000_000)
		s := New(100, func() time.Time { return now })
		var asks []Ask
		for i := range keys {
			asks = append(asks, Ask{Pair: s.Pair("rule", strconv.Itoa(i)), Limit: limitOf(t, algorithm.TokenBucket, 9, time.Second), Claim: i, Cost: 1})
		}
		s.Take(asks)
		if !decided(s, asks) {
			t.Errorf("%d keys: not decided at the instant of the states", keys)
		}
		if now = now.Add(-1); decided(s, asks) {
			t.Errorf("%d keys: decided though the states are later than the clock", keys)
		}
	}
}

func TestKnownPairIsChargedOnlyWhatIsAdmitted(t *testing.T) {
	for keys := 1; keys <= 2; keys++ {
		synctest.Test(t, func(t *testing.T) {
			s := New(100, nil)
			l := limitOf(t, algorithm.TokenBucket, 9, time.Second)
			for _, row := range []struct{ cost, retry, left int64 }{{5, 0, 4}, {10, Never, 4}, {5, 111_112, 4}, {4, 0, 0}} {
				var asks []Ask
				for i := range keys {
					asks = append(asks, Ask{Pair: s.Pair("rule", strconv.Itoa(i)), Limit: l, Claim: i, Cost: row.cost})
				}
				decide(s, asks)
				for _, a := range asks {
					if a.Retry != row.retry || a.Usage.Remaining != row.left {
						t.Errorf("%d keys, %+v: retry %d, %d remain", keys, row, a.Retry, a.Usage.Remaining)
					}
				}
			}
		})
	}
}

func TestAllShardsAreLockedAtOnce(t *testing.T) {
	s := New(100, nil)
	l := limitOf(t, algorithm.TokenBucket, 9, time.Hour)
	var asks []Ask
	for i := range 3 {
		asks = append(asks, Ask{Pair: s.Pair("rule", strconv.Itoa(i)), Limit: l, Claim: i, Cost: 1})
	}
	s.Take(asks)
	for i := range asks {
		sh := s.shard(asks[i].Pair)
		sh.Lock()
		synctestDone := make(chan bool)
		go func() {
			s.takePlain(asks)
			close(synctestDone)
		}()
		for !tryAll(s, asks, sh) { // until the decision holds or waits for all it can get
			time.Sleep(time.Microsecond)
		}
		select {
		case <-synctestDone:
			t.Errorf("decided though shard %d was locked", i)
		default:
		}
		sh.Unlock()
		<-synctestDone
	}
}

// tryAll reports whether every shard of asks that comes before sh is locked by a decision.
func tryAll(s *Store, asks []Ask, sh *shard) bool {
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

// The clock is read before the lock is had: meanwhile others may have decided.
func TestDecisionIsNotEarlierThanTheLastOfItsKey(t *testing.T) {
	for keys := 1; keys <= 3; keys++ {
		synctest.Test(t, func(t *testing.T) {
			l := limitOf(t, algorithm.TokenBucket, 1_000_000, time.Second)
			s := New(100, nil)
			var asks []Ask
			for i := range keys {
				asks = append(asks, Ask{Pair: s.Pair("rule", strconv.Itoa(i)), Limit: l, Claim: i, Cost: 1000})
			}
			first := s.Take(asks)
			for i := range asks {
				asks[i].find()
				asks[i].record.at += int64(100 * (keys - i))
			}
			passed := time.Duration(100*keys) * time.Microsecond
			if at := decide(s, asks); at.Sub(first) != passed || asks[0].Usage.Remaining != 1_000_000-2000 {
				t.Errorf("%d keys: decided %v later, %+v; want %v and 2000 used", keys, at.Sub(first), asks[0].Usage, passed)
			}
		})
	}
}
