package memory

const (
	maxStates = 32 // records of one pair; further limits share theirs with other pairs

	// idleTTL is for how many microseconds a store with room to spare keeps idle records. A client that comes again and again
	// has used nothing most of the time, and finding its record takes less than adding it anew.
	idleTTL = 10_000_000

	sweepIfRoom = 2  // records to look at for each new pair, so that a store with room to spare does not fill up with idle ones
	sweepIfFull = 32 // records to look at in each of some shards for a new pair in a full store
	sweepShards = 32 // how many shards that is for a decision, at most
	maxUnused   = 16 // unused records that a sweep passes for each that it looks at
)

// makeRoom reports whether the pair of c may have a record more, of a kind. In a full store it drops idle ones for that, if it finds
// some in a bounded time; shards that have none cost it nothing.
func (s *Store) makeRoom(d *decision, c *claim, kind uint64) bool {
	if n := c.shard.countOf(c.pair.id); n > 0 {
		return n < maxStates || kind>>4 == 0
	}
	for ; d.sweeps < sweepShards; d.sweeps++ {
		if s.addPair() {
			s.pairs.Add(-c.shard.sweepIdle(d.now-idleTTL, d.claims))
			return true
		}
		if !s.sweepNext(d.held, d.now, d.claims) {
			break
		}
	}
	return s.addPair()
}

// addPair counts a further pair, if there may be one.
func (s *Store) addPair() bool {
	if s.pairs.Add(1) <= s.maxKeys {
		return true
	}
	s.pairs.Add(-1)
	return false
}

// sweepIdle drops a few idle records, if there may be any.
func (s *shard) sweepIdle(at int64, keep []claim) (pairs int64) {
	if s.ends.Load() > at {
		return 0
	}
	return s.sweep(at, sweepIfRoom, keep)
}

// sweepNext sweeps some records of the next shard that may have idle records and is not locked. It reports false if there is
// none.
func (s *Store) sweepNext(held uint64, now int64, keep []claim) bool {
	for range shards {
		i := s.hand.Add(1) % shards
		if s.ends[i].Load() > now {
			continue
		}
		sh := &s.shards[i]
		mine := held&(1<<i) != 0
		if !mine && !sh.TryLock() {
			continue
		}
		s.pairs.Add(-sh.sweep(now, sweepIfFull, keep))
		if !mine {
			sh.Unlock()
		}
		return true
	}
	return false
}
