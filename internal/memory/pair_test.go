package memory

import (
	"strconv"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

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
			room := s.shards[i].room
			if cap(room.asks) > maxRoom || cap(room.pairs) > maxRoom {
				t.Fatalf("%d keys: a room for %d asks of %d pairs is kept, want at most %d", keys, cap(room.asks), cap(room.pairs), maxRoom)
			}
			for _, a := range room.asks {
				if a.Stored != nil || a.Run != nil || a.Cells != nil {
					t.Fatalf("%d keys: the room of shard %d keeps a record", keys, i)
				}
			}
			for _, p := range room.pairs {
				if p.Limits != nil || p.record != nil || p.cells != nil {
					t.Fatalf("%d keys: the room of shard %d keeps an op", keys, i)
				}
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
				if found := p.Is(limitOf(t, b, 5, time.Hour).Kind); found != (a == b) {
					t.Errorf("a state of algorithm %d is found by the kind of %d: %v", a, b, found)
				}
			}
			if other := limitOf(t, b, 5, time.Minute); a == b && (&record{Kind: limitOf(t, a, 5, time.Hour).Kind}).Is(other.Kind) {
				t.Errorf("a state of algorithm %d is found by another period", a)
			}
		}
	}
}
