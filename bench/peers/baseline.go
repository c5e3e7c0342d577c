package peers

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Clock is a baseline: one reading of the clock.
func Clock(Limit) *Store {
	base := time.Now()
	return shared("time.Since", func(string) bool { return time.Since(base) >= 0 })
}

const mapShards = 64

// A mapShard is a shard of a map, with a lock of its own.
type mapShard struct {
	sync.Mutex
	m map[string]*atomic.Int64
	_ [40]byte // a cache line each
}

// Map is a baseline: a look-up in a map of 64 shards, each with a lock, and an addition to the value.
func Map(Limit) *Store {
	seed := maphash.MakeSeed()
	shards := make([]mapShard, mapShards)
	for i := range shards {
		shards[i].m = make(map[string]*atomic.Int64)
	}
	return shared("sharded map", func(key string) bool {
		s := &shards[maphash.String(seed, key)%mapShards]
		s.Lock()
		n := s.m[key]
		if n == nil {
			n = new(atomic.Int64)
			s.m[key] = n
		}
		s.Unlock()
		return n.Add(1) > 0
	})
}
