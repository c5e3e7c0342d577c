package memory

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// The general path decides what takeKnown refuses, so only this test tells whether it takes what it is for.
func TestWhatTakeKnownDecides(t *testing.T) {
	bucket := func(i int) *algorithm.Limit {
		return limitOf(t, algorithm.TokenBucket, 9, time.Duration(i+1)*time.Second)
	}
	for why, row := range map[string]struct {
		pairs, limits int
		change        func(asks []Ask)
		takes         bool
	}{
		"one limit":                        {1, 1, nil, true},
		"many limits of many pairs":        {5, 9, nil, true},
		"a peek":                           {1, 2, func(asks []Ask) { asks[1].Peek = true }, true},
		"a dry run alone":                  {1, 1, func(asks []Ask) { asks[0].DryRun = true }, true},
		"not a dry run with others":        {1, 2, func(asks []Ask) { asks[0].DryRun = true }, false},
		"not another algorithm":            {1, 2, func(asks []Ask) { asks[1].Limit = limitOf(t, algorithm.FixedWindow, 9, time.Second) }, false},
		"not the same state twice":         {1, 2, func(asks []Ask) { asks[1] = asks[0] }, false},
		"not a state that is not there":    {1, 2, func(asks []Ask) { asks[1].Limit = bucket(70) }, false},
		"not a bucket with another rate":   {1, 1, func(asks []Ask) { asks[0].Limit = limitOf(t, algorithm.TokenBucket, 8, time.Second) }, false},
		"not a bucket with coarser ticks":  {1, 1, func(asks []Ask) { asks[0].Limit = &algorithm.Limit{Rate: 9, Kind: bucket(0).Kind, Code: 1} }, false},
		"not a bucket asked at two rates":  {1, 1, func(asks []Ask) { asks[0].record.kind |= 65 << slowestAt }, false},
		"none of several if one is missed": {3, 1, func(asks []Ask) { asks[2].Pair.id++ }, false},
	} {
		s := New(100, nil)
		var asks []Ask
		for p := range row.pairs {
			for i := range row.limits {
				asks = append(asks, Ask{Pair: s.Pair("rule", strconv.Itoa(p)), Limit: bucket(i), Claim: p, Cost: 1})
			}
		}
		if _, ok := s.takeKnown(asks); ok {
			t.Errorf("%s: decided though nothing is known", why)
		}
		s.Take(asks)
		for i := range asks {
			asks[i].find()
		}
		if row.change != nil {
			row.change(asks)
		}
		_, ok := s.takeKnown(asks)
		if ok != row.takes {
			t.Errorf("%s: decided: %t", why, ok)
		}
		for i := range asks {
			if left := int64(7); ok && !asks[i].Peek && asks[i].Usage.Remaining != left {
				t.Errorf("%s: %d remain, want %d", why, asks[i].Usage.Remaining, left)
			}
		}
		if held := s.lock(asks); held == 0 { // deadlocks if takeKnown has left a lock
			t.Errorf("%s: nothing to lock", why)
		}
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
			s.takeKnown(asks)
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
	synctest.Test(t, func(t *testing.T) {
		l := limitOf(t, algorithm.TokenBucket, 1_000_000, time.Second)
		s := New(100, nil)
		asks := []Ask{{Pair: s.Pair("rule", "key"), Limit: l, Cost: 1000}}
		first := s.Take(asks)
		asks[0].find()
		asks[0].record.at += 100
		at := s.Take(asks)
		if at.Sub(first) != 100*time.Microsecond || asks[0].Usage.Remaining != 1_000_000-2000 {
			t.Errorf("decided %v later, %+v; want 100µs and 2000 used", at.Sub(first), asks[0].Usage)
		}
	})
}
