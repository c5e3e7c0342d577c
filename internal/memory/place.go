package memory

import (
	"slices"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// placeAll places the dry runs or the others that are charged. It reports whether they are admitted even if they share records now.
func (c *call) placeAll(dryRun bool) bool {
	for i := range c.ops {
		if o := &c.ops[i]; o.fits && o.DryRun == dryRun && o.Kind != Peek {
			c.place(o)
		}
	}
	if !c.placed || len(c.ops) == 1 {
		return true
	}
	c.findAll(false)
	return c.decide(dryRun)
}

// place gives o the records that it lacks for what it charges, or remembers as cells. That may move the records of others and, in a
// full store, several asks may get the same record.
func (c *call) place(o *Op) {
	if (o.record == nil || o.record.Pair != o.Pair.id) && o.needsCells() {
		c.placeOne(o, algorithm.CellsKind, 0)
	}
	for i := range o.asks {
		if a := &o.asks[i]; (a.Stored == nil || a.id != o.Pair.id) && o.charges(a) {
			c.placeOne(o, a.Limit.Kind, a.Limit.Sibling)
		}
	}
	if c.placed {
		c.find(o, false)
	}
}

// needsCells reports whether o adds a cell.
func (o *Op) needsCells() bool {
	needs := o.Kind == Hold || o.Kind == Ban || o.Kind == Grant
	for i := range o.asks {
		needs = needs || o.asks[i].BeginsBan(o.asks[i].asked)
	}
	return needs
}

// charges reports whether o charges a. A rate of 0 needs no state.
func (o *Op) charges(a *ask) bool {
	if o.Kind == Hold || o.Kind == Grant && (o.N > 0 || a.Limit.Row.Book == nil) {
		return false
	}
	return a.Limit.IsCharged()
}

// placeOne gives the pair of o a record of a kind, or one to share.
func (c *call) placeOne(o *Op, kind uint64, sibling uint32) {
	s, id := o.shard, o.Pair.id
	c.placed = true
	switch {
	case s.find(id, kind) != nil:
	case c.makeRoom(o, kind):
		s.copyShared(o.Pair, kind)
	default:
		id = o.Pair.shared
	}
	s.ensure(id, kind, sibling, c.now, o.Pair.shared)
}

// copyShared gives a pair records of a kind of its own, with what the pair has shared until now. It gets the cells with its first
// record, and only then: cells that come later are others'.
func (s *shard) copyShared(p Pair, kind uint64) {
	if s.shared == 0 {
		return
	}
	own, _ := s.of(p.id)
	run, _ := s.of(p.shared)
	for _, r := range slices.Clone(run) {
		isCells := r.Kind == algorithm.CellsKind
		switch r.Pair = p.id; {
		case len(own) > 0 && isCells || !isCells && !r.Is(kind):
			continue
		case isCells:
			r.Extra = s.cells.Add(slices.Clone(*s.cells.At(r.Extra)))
		case r.HasLog():
			r.Extra = s.logs.Add(s.logs.At(r.Extra).Clone())
		}
		*s.insert(p.id, r.Kind) = r
	}
}

// ensure makes sure that the pair id, which may be one that pairs share, has a record of a kind for a sibling.
func (s *shard) ensure(id, kind uint64, sibling uint32, now int64, shared uint64) {
	run, _ := s.of(id)
	if slices.ContainsFunc(run, func(r record) bool { return r.Is(kind) && r.Sibling == sibling }) {
		return
	}
	r := algorithm.Place(run, kind, now)
	if r != nil {
		s.empty(r)
	} else {
		r = s.insert(id, kind)
		if isShared(id) {
			s.shared++
		}
	}
	*r = record{Pair: id, Kind: kind, At: now, Sibling: sibling}
	if kind == algorithm.CellsKind {
		r.Level, r.Extra = int64(shared), s.cells.Add(nil)
	}
}

const (
	maxStates = 32 // records of one pair, without further siblings of those; further limits share theirs with other pairs

	// idleTTL is how long a store with room to spare keeps idle records, in microseconds. The state of a regular client
	// is idle most of the time, and finding its record is faster than adding it again.
	idleTTL = 10_000_000

	sweepIfRoom = 2  // records to look at for each new pair, so that a store with room to spare does not fill up with idle ones
	sweepIfFull = 32 // records to look at in each of some shards for a new pair in a full store
	sweepShards = 32 // how many shards that is for a decision, at most
	maxUnused   = 16 // unused records that a sweep passes for each that it looks at
)

// makeRoom reports whether the pair of o may have a record more, of a kind that it has none of. In a full store, it drops idle
// records, if it finds some in a bounded time. Shards without idle records cost nothing.
func (c *call) makeRoom(o *Op, kind uint64) bool {
	if run, _ := o.shard.of(o.Pair.id); len(run) > 0 {
		return len(run) < maxStates || kind == algorithm.CellsKind
	}
	s := c.store
	for ; s.pairs.Add(1) > s.maxKeys; c.sweeps++ {
		if s.pairs.Add(-1); c.sweeps == sweepShards || !c.sweepNext() {
			return false
		}
	}
	if at := c.now - idleTTL; o.shard.ends.Load() <= at {
		c.sweep(o.shard, at, sweepIfRoom)
	}
	return true
}

// sweepNext sweeps some records of the next unlocked shard that may have idle records. It reports false if there is none.
func (c *call) sweepNext() bool {
	s := c.store
	for range shards {
		i := s.hand.Add(1) % shards
		if s.ends[i].Load() > c.now {
			continue
		}
		sh := &s.shards[i]
		mine := c.shards&(1<<i) != 0
		if !mine && !sh.TryLock() {
			continue
		}
		c.sweep(sh, c.now, sweepIfFull)
		if !mine {
			sh.Unlock()
		}
		return true
	}
	return false
}
