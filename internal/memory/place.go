package memory

import (
	"github.com/spillgate/spillgate/internal/algorithm"
)

// place gives each ask that may be charged a record for its state. In a full store, several asks may get the same
// record; place then reports true, and the asks must be evaluated again.
func (d *decision) place(s *Store) (again bool) {
	placed := false
	for i := range d.claims {
		placed = d.placeAll(s, &d.claims[i]) || placed
	}
	if !placed {
		return false
	}
	for i := range d.claims {
		d.find(&d.claims[i])
	}
	again = len(d.claims) > 1 && d.sumUp()
	for i := range d.claims {
		c := &d.claims[i]
		for j := range c.asks {
			c.asks[j].load(c)
		}
	}
	return again
}

// placeClaim is place for the only claim that is settled.
func (d *decision) placeClaim(s *Store, c *Claim) {
	if d.placeAll(s, c) {
		d.find(c)
	}
}

// placeAll gives c the records that it lacks, and reports whether there were any. Records may have moved then.
func (d *decision) placeAll(s *Store, c *Claim) (placed bool) {
	if c.Hold && !c.Peek && (c.hold == nil || c.hold.id != c.Pair.id) {
		d.placeOne(s, c, algorithm.HoldKind)
		placed = true
	}
	for i := range c.asks {
		if a := &c.asks[i]; !a.Own && !a.Peek && a.Limit.Algorithm != algorithm.InFlight {
			a.added = d.placeOne(s, c, a.Limit.Kind) || a.added
			placed = true
		}
	}
	return placed
}

// placeOne gives the pair of c a record of a kind, or has it share one. It reports whether it has added one.
func (d *decision) placeOne(s *Store, c *Claim, kind uint64) (added bool) {
	sh := c.shard
	first := !sh.has(c.Pair.id)
	switch {
	case sh.find(c.Pair.id, kind) != nil: // another ask has added it
	case s.makeRoom(d, c, kind):
		sh.add(c.Pair, kind, d.now)
		for _, k := range []uint64{algorithm.HoldKind, algorithm.BanKind} {
			if first && k != kind && sh.findShared(c.Pair, k) != nil {
				sh.add(c.Pair, k, d.now)
			}
		}
		return true
	case sh.findShared(c.Pair, kind) == nil:
		sh.insert(c.Pair.shared, kind).At = d.now
		sh.shared++
	}
	return false
}

// add gives a pair a record of a kind. The record starts with the state that the pair has shared until now.
func (s *shard) add(p Pair, kind uint64, now int64) {
	shared := s.findShared(p, kind)
	if shared == nil {
		s.insert(p.id, kind).At = now
		return
	}
	own := *shared
	own.id = p.id
	switch {
	case own.hasHolds():
		own.Extra = s.holds.add(s.holds.at(own.Extra).Clone())
	case own.hasLog():
		own.Extra = s.logs.add(s.logs.at(own.Extra).Clone())
	}
	*s.insert(p.id, kind) = own
	s.endsAt(own.ends())
}

const (
	maxStates = 32 // records of one pair; further limits share theirs with other pairs

	// idleTTL is how long a store with room to spare keeps idle records, in microseconds. The state of a regular client
	// is idle most of the time, and finding its record is faster than adding it again.
	idleTTL = 10_000_000

	sweepIfRoom = 2  // records to look at for each new pair, so that a store with room to spare does not fill up with idle ones
	sweepIfFull = 32 // records to look at in each of some shards for a new pair in a full store
	sweepShards = 32 // how many shards that is for a decision, at most
	maxUnused   = 16 // unused records that a sweep passes for each that it looks at
)

// makeRoom reports whether the pair of c may have a record more, of a kind. In a full store, it drops idle records, if
// it finds some in a bounded time. Shards without idle records cost nothing.
func (s *Store) makeRoom(d *decision, c *Claim, kind uint64) bool {
	if n := len(c.shard.of(c.Pair.id)); n > 0 {
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
func (s *shard) sweepIdle(at int64, keep []Claim) (pairs int64) {
	if s.ends.Load() > at {
		return 0
	}
	return s.sweep(at, sweepIfRoom, keep)
}

// sweepNext sweeps some records of the next shard that may have idle records and is not locked. It reports false if there is
// none.
func (s *Store) sweepNext(held uint64, now int64, keep []Claim) bool {
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
