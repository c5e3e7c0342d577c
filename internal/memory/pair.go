package memory

import (
	"math/bits"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A call is the work on all ops of one Do, while the locks of their shards are held.
type call struct {
	store   *Store
	pairs   []pair // one for each op
	asks    []ask  // of all pairs
	shards  uint64 // that are locked
	now     int64
	offset  int64 // of the wall clock
	sweeps  int   // shards that were swept for room
	dryRuns bool  // some ops are dry runs
	overlap bool  // some ops are about one pair, or their pairs may share records
	lacks   bool  // some pair lacks a record of its own that a charge or a hold may need
	rare    bool  // some pair has cells, or shares records
}

// A pair is the work on one op.
type pair struct {
	Op    // a copy: the store keeps no pointer to an op, so that its caller has it on the stack
	shard *shard
	asks  []ask // for its limits
	fits  bool  // all of them admit it
	held  bool  // its cost is held

	// What the pair remembers whatever its limits are.
	record *record          // with its cells; nil if it has none
	cells  *algorithm.Cells // nil if it has none
	cost   int64            // that requests in flight hold
	count  int64            // of requests in flight
	banned int64            // microseconds
}

// An ask is one limit of an op.
type ask struct {
	algorithm.State
	pair  *pair
	id    uint64 // of the records that have the state, or will have it: the pair's, or shared ones
	cost  int64  // of this ask alone: a limit in flight counts requests
	asked int64  // the cost of all asks that are decided as one
	retry int64
	wait  int64 // until the turn of a request that books it
	added bool  // the record was added for this ask
}

// A room keeps the slices of calls, so that a call allocates nothing.
type room struct {
	pairs []pair
	asks  []ask
}

// maxRoom is how many pairs and asks a shard keeps room for.
const maxRoom = 64

// grown returns room for so many pairs and asks: r, unless they are too many to keep.
func (r *room) grown(pairs, asks int) *room {
	larger := &room{make([]pair, max(pairs, len(r.pairs))), make([]ask, max(asks, len(r.asks)))}
	if pairs <= maxRoom && asks <= maxRoom {
		*r = *larger
	}
	return larger
}

// open locks the shards of all ops in ascending order, finds the states, and charges what holds have become by now. Calls that
// lock a shard first use its room.
func (c *call) open(ops []Op) {
	s, limits := c.store, 0
	for i := range ops {
		c.shards |= 1 << (ops[i].Pair.id >> (64 - shardBits))
		limits += len(ops[i].Limits)
	}
	for set := c.shards; set != 0; set &= set - 1 {
		s.shards[bits.TrailingZeros64(set)].Lock()
	}
	room := &s.shards[bits.TrailingZeros64(c.shards)%shards].room
	if len(ops) > len(room.pairs) || limits > len(room.asks) {
		room = room.grown(len(ops), limits)
	}
	c.now, c.offset = s.read()
	c.pairs, c.asks = room.pairs[:len(ops)], room.asks[:limits]
	n := 0
	for i := range c.pairs {
		p := &c.pairs[i]
		p.Op, p.fits, p.held = ops[i], true, false
		p.Cost, p.N = min(max(p.Cost, 1), algorithm.MaxExact), min(p.N, algorithm.MaxExact)
		p.shard = &s.shards[p.Pair.id>>(64-shardBits)]
		p.asks = c.asks[n : n+len(p.Limits)]
		n += len(p.Limits)
		c.dryRuns = c.dryRuns || p.DryRun
		for j := range p.asks {
			a := &p.asks[j]
			a.Limit, a.Logs, a.pair = &p.Limits[j], &p.shard.logs, p
			a.Now, a.Offset = c.now, c.offset
			a.cost, a.wait, a.added = p.Cost, 0, false
			if a.Limit.Row.Counts {
				a.cost = 1
			}
			a.asked = a.cost
		}
		c.find(p)
	}
	if c.rare && c.endHolds() {
		c.findAll()
	}
}

// endHolds ends the holds of all pairs that have ended by now, and reports whether there were any.
func (c *call) endHolds() (ended bool) {
	for i := range c.pairs {
		p := &c.pairs[i]
		if p.cells != nil && p.cells.IsDue(c.now) {
			ended = p.shard.endHolds(p.Pair.id, c.now, c.offset) || ended
		}
		if p.shard.shared > 0 {
			ended = p.shard.endHolds(p.Pair.shared, c.now, c.offset) || ended
		}
	}
	return ended
}

// close tells the caller which holds were renewed, and unlocks the shards. It clears pointers, so that the room keeps neither ops
// nor an old table in memory after the table has grown.
func (c *call) close(ops []Op) {
	for i := range c.asks {
		a := &c.asks[i]
		a.Limit, a.Stored, a.Run, a.Cells = nil, nil, nil, nil
	}
	for i := range c.pairs {
		p := &c.pairs[i]
		ops[i].At = p.At
		p.Limits, p.record, p.cells = nil, nil, nil
	}
	for set := c.shards; set != 0; set &= set - 1 {
		c.store.shards[bits.TrailingZeros64(set)].Unlock()
	}
}

// findAll finds the records of all pairs. It finds them again after records were added, which may have moved others.
func (c *call) findAll() {
	for i := range c.pairs {
		c.find(&c.pairs[i])
	}
}

// find finds the records of p. All states of siblings are the pair's own, or all are shared. The state of a limit in flight
// is the record of the cells.
func (c *call) find(p *pair) {
	own, _ := p.shard.of(p.Pair.id)
	var shared []record
	if p.shard.shared > 0 {
		shared, _ = p.shard.of(p.Pair.shared)
		c.rare = true
	}
	run := own
	if len(run) == 0 {
		run = shared
	}
	p.record, p.cells, p.cost, p.count, p.banned = nil, nil, 0, 0, 0
	if len(run) > 0 && run[0].Kind == algorithm.CellsKind { // which comes first
		p.record, p.cells = &run[0], p.shard.cells.At(run[0].Extra)
		p.load(c.now)
		c.rare = true
	}
	if p.Kind == Hold && (p.record == nil || p.record.Pair != p.Pair.id) {
		c.lacks = true
	}
	for i := range p.asks {
		a := &p.asks[i]
		a.id, a.Cells = p.Pair.id, p.cells
		if !a.Pick(own) && a.Pick(shared) {
			a.id = p.Pair.shared
		}
		if p.Kind == Take && (a.Stored == nil || a.id != p.Pair.id || a.Limit.Ban > 0) {
			c.lacks = true
		}
	}
}

// load loads what the pair holds and for how long it is banned.
func (p *pair) load(now int64) {
	cost, count, banned := p.cells.Sum()
	p.cost, p.count, p.banned = cost, count, max(0, banned-now)
}

// take decides all claims, charges none unless every enforced one is admitted, and then charges the dry runs that fit as well.
func (c *call) take(answers []Answer) {
	if len(c.pairs) > 1 {
		c.sumUp()
	}
	if c.dryRuns { // states of a clock that has gone back are mended in the order of the ops
		c.openAll()
	}
	admitted := c.decide(false) && c.finish(false)
	if c.dryRuns {
		c.decide(true)
		if admitted {
			c.finish(true)
		}
	}
	if c.overlap { // ops have changed the states of others
		c.openAll()
	}
	for i := range answers {
		a, answer := &c.asks[i], &answers[i]
		answer.Retry, answer.Wait, answer.Usage = a.retry, a.wait, a.Limit.Row.Report(&a.State)
		if a.Cells != nil {
			answer.Usage = answer.Usage.Less(a.held(), a.pair.banned)
		}
	}
}

// openAll opens all states.
func (c *call) openAll() {
	for i := range c.asks {
		a := &c.asks[i]
		a.Limit.Row.Open(&a.State, a.asked)
	}
}

// sumUp adds up the costs of all asks of the same state, or of siblings: separately for peeks, and separately for dry
// runs, which must not make others fail. It reports whether any sum has changed.
func (c *call) sumUp() (changed bool) {
	for i := range c.pairs {
		p := &c.pairs[i]
		if !c.mayOverlap(p) { // all sums are single costs
			continue
		}
		c.overlap = true
		for j := range p.asks {
			a := &p.asks[j]
			asked := a.cost
			for k := range c.asks {
				b := &c.asks[k]
				q := b.pair
				if p != q && p.DryRun == q.DryRun && p.Kind != Peek && q.Kind != Peek && a.Limit.Kind == b.Limit.Kind && a.id == b.id {
					asked = min(asked+b.cost, algorithm.MaxExact)
				}
			}
			changed = changed || asked != a.asked
			a.asked = asked
		}
	}
	return changed
}

// mayOverlap reports whether states of p may be states of another op: they are of one pair, or pairs share them.
func (c *call) mayOverlap(p *pair) bool {
	for i := range c.pairs {
		if q := &c.pairs[i]; q != p && (p.Pair.id == q.Pair.id || p.shard == q.shard && p.shard.shared > 0) {
			return true
		}
	}
	return false
}

// decide decides the dry runs or the others, and reports whether all are admitted.
func (c *call) decide(dryRun bool) bool {
	admitted := true
	for i := range c.asks {
		a := &c.asks[i]
		p := a.pair
		if p.DryRun != dryRun {
			continue
		}
		if a.decide(a.asked); a.retry != 0 && !a.book() {
			admitted, p.fits = false, false
		}
	}
	return admitted
}

// decide sets how long it takes until the limit admits cost, whatever the pair holds and while it is banned.
func (a *ask) decide(cost int64) {
	a.retry, a.wait = a.Limit.Row.Open(&a.State, cost), 0
	if a.Cells == nil {
		return
	}
	if held := a.held(); held > 0 && a.retry == 0 && a.Limit.Row.Report(&a.State).Remaining < cost+held {
		a.retry = algorithm.HoldHint
	}
	a.retry = max(a.retry, a.pair.banned)
}

// held returns what requests in flight hold of the limit.
func (a *ask) held() int64 {
	if a.Limit.Row.Counts {
		return a.pair.count
	}
	return a.pair.cost
}

// book books a turn for a request that does not fit now, if the turn comes soon enough. Otherwise it sets retry to the
// time after which the same request would get a turn. No request waits for the holds of others, because nobody knows
// when they end.
func (a *ask) book() (booked bool) {
	switch most := a.pair.MaxWait; {
	case most == 0 || a.retry == algorithm.Never || a.held() > 0:
		return false
	case a.retry > most:
		a.retry -= most
		return false
	}
	if booked = a.CanBook(a.asked, a.pair.banned); booked {
		a.retry, a.wait = 0, a.retry
	}
	return booked
}

// finish charges the dry runs or the others, or holds their cost, if they fit. It reports false if the others do not fit any more,
// because pairs have to share records.
func (c *call) finish(dryRun bool) bool {
	if c.lacks && !c.placeAll(dryRun) {
		return false
	}
	for i := range c.asks {
		a := &c.asks[i]
		p := a.pair
		switch {
		case p.DryRun != dryRun || !p.fits:
		case p.Kind == Take:
			if c.overlap && c.place(p) { // the siblings of one call may be too many
				c.findAll()
			}
			c.charge(a, p.Cost)
		case p.Kind == Hold && !p.held:
			p.held = true
			p.cells.Hold(c.now, p.Cost, 1, p.Limits)
			c.changed(p)
		}
	}
	return true
}

// charge adds cost to the state of a.
func (c *call) charge(a *ask, cost int64) {
	row := a.Limit.Row
	if c.overlap { // another ask may have changed the state
		behind := a.Behind
		row.Open(&a.State, a.asked)
		a.Behind = behind
	}
	if a.wait > 0 {
		row.Book(&a.State, cost, a.pair.banned)
	} else {
		row.Charge(&a.State, cost)
	}
	if a.added {
		a.pair.shard.endsAt(row.Ends(a.Stored))
	}
}

// changed tells the shard when the cells of p, which have changed, end, and loads them again for all ops.
func (c *call) changed(p *pair) {
	p.shard.setCells(p.record, c.now)
	for i := range c.pairs {
		if q := &c.pairs[i]; q.cells != nil {
			q.load(c.now)
		}
	}
}
