package memory

import (
	"math/bits"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A call is the work on all ops of one Do, while the locks of their shards are held.
type call struct {
	store   *Store
	pairs   []pair // of the ops that change something
	asks    []ask  // of all pairs
	shards  uint64 // that are locked
	now     int64
	offset  int64 // of the wall clock
	sweeps  int   // shards that were swept for room
	settles bool  // some ops are not decided
	dryRuns bool  // some of them are dry runs
	overlap bool  // some asks are about one state, or about siblings
	lacks   bool  // some pair lacks a record of its own that a charge may need
	rare    bool  // some pair has cells, or shares records
}

// A pair is the work on one op.
type pair struct {
	Op        // a copy: the store keeps no pointer to an op, so that its caller has it on the stack
	op    int // its index
	shard *shard
	asks  []ask // for its limits

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
	id    uint64 // of the records that have the state, or will have it: the pair's, or shared ones
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

// open finds the states of all ops that change something, and charges what holds have become by now. The caller holds
// the shards. Calls that lock a shard first use its room.
func (c *call) open(s *Store, ops []Op, pairs, limits int) {
	c.store = s
	room := &s.shards[bits.TrailingZeros64(c.shards)%shards].room
	if pairs > len(room.pairs) || limits > len(room.asks) {
		room = room.grown(pairs, limits)
	}
	c.pairs, c.asks = room.pairs[:pairs], room.asks[:limits]
	c.now, c.offset = s.clock.read(), s.clock.offset()
	asks, n := c.asks, 0
	for i := range ops {
		o := &ops[i]
		if !o.changes() {
			continue
		}
		p := &c.pairs[n]
		n++
		p.Op, p.op, p.shard = *o, i, s.shard(o.Pair)
		p.asks, asks = asks[:len(o.Limits)], asks[len(o.Limits):]
		c.settles, c.dryRuns = c.settles || !o.decides(), c.dryRuns || o.DryRun
		for j := range p.asks {
			a := &p.asks[j]
			a.Limit, a.Logs, a.Now, a.Offset = &o.Limits[j], &p.shard.logs, c.now, c.offset
			a.wait, a.added = 0, false
			a.asked = a.costOf(p)
		}
	}
	if c.findAll(); c.rare && c.endHolds() {
		c.findAll()
	}
}

// endHolds ends the holds of all pairs that have ended by now, and reports whether there were any.
func (c *call) endHolds() (ended bool) {
	for i := range c.pairs {
		p := &c.pairs[i]
		ended = p.shard.endHolds(p.Pair.id, c.now, c.offset) || ended
		ended = p.shard.endHolds(p.Pair.shared, c.now, c.offset) || ended
	}
	return ended
}

// close clears pointers, so that the room keeps neither ops nor an old table in memory after the table has grown.
func (c *call) close() {
	for i := range c.asks {
		a := &c.asks[i]
		a.Stored, a.Run, a.Cells = nil, nil, nil
	}
	for i := range c.pairs {
		p := &c.pairs[i]
		p.Limits, p.record, p.cells = nil, nil, nil
	}
}

// costOf returns the cost of a alone, an ask of p: a limit in flight counts requests.
func (a *ask) costOf(p *pair) int64 {
	if a.Limit.Row.Counts {
		return 1
	}
	return p.Cost
}

// findAll finds the records of all pairs. It finds them again after records were added, which may have moved others.
func (c *call) findAll() {
	for i := range c.pairs {
		c.find(&c.pairs[i])
	}
}

// find finds the records of p. All states of siblings are the pair's own, or all are shared.
func (c *call) find(p *pair) {
	own, shared := p.shard.of(p.Pair.id), []record(nil)
	if p.shard.shared > 0 {
		shared = p.shard.of(p.Pair.shared)
	}
	p.record, p.cells = nil, nil
	if len(own) > 0 {
		p.note(own)
	} else {
		p.note(shared)
	}
	if p.record != nil || len(shared) > 0 {
		c.rare = true
	}
	if p.record != nil {
		p.load(c.now)
	}
	c.lacks = c.lacks || p.Kind == Hold
	for i := range p.asks {
		a := &p.asks[i]
		a.id, a.Cells = p.Pair.id, p.cells
		if a.Limit.Row.Counts {
			if p.record != nil {
				a.id = p.record.Pair
			}
		} else {
			if !a.pick(own) && a.pick(shared) {
				a.id = p.Pair.shared
			}
			c.lacks = c.lacks || a.Stored == nil || a.id != p.Pair.id || a.Limit.Ban > 0
		}
	}
}

// note notes the record with the cells of a pair, which comes first.
func (p *pair) note(run []record) {
	if len(run) > 0 && run[0].Kind == algorithm.CellsKind {
		p.record, p.cells = &run[0], p.shard.cells.At(run[0].Extra)
	}
}

// load loads what the pair holds and for how long it is banned.
func (p *pair) load(now int64) {
	p.cost, p.count = p.cells.Held()
	p.banned = max(0, p.cells.Banned()-now)
}

// pick picks the state of a, and those of siblings, from the records of a pair. It reports whether there are any.
func (a *ask) pick(run []record) bool {
	a.Stored, a.Run = nil, nil
	for i := range run {
		r := &run[i]
		if !r.Is(a.Limit.Kind) {
			continue
		}
		if a.Run == nil {
			a.Run = run[i : i+1]
		} else {
			a.Run = run
		}
		if r.Sibling == a.Limit.Sibling {
			a.Stored = r
		}
	}
	return a.Run != nil
}

// do decides the ops that are decided, and does the others one after the other.
func (c *call) do(answers []Answer) error {
	for i := 0; c.settles && i < len(c.pairs); i++ {
		if p := &c.pairs[i]; p.Kind == Grant && !p.hasRoom() {
			return ErrFull
		}
	}
	if len(answers) > 0 {
		c.take()
		c.report(answers)
	}
	for i := 0; c.settles && i < len(c.pairs); i++ {
		if p := &c.pairs[i]; !p.decides() {
			c.find(p) // earlier ops may have added records
			c.settle(p)
		}
	}
	return nil
}

// take decides all claims, charges none unless every enforced one is admitted, and then charges the dry runs that fit as well.
func (c *call) take() {
	if len(c.pairs) > 1 {
		c.sumUp()
	}
	for i := range c.asks {
		if a := &c.asks[i]; c.dryRuns { // states of a clock that has gone back are mended in the order of the ops
			a.Limit.Row.Open(&a.State, a.asked)
		}
	}
	admitted := c.decide(false) && c.commit(false)
	if c.dryRuns {
		c.decide(true)
		if admitted {
			c.commit(true)
		}
	}
}

// sumUp adds up the costs of all asks of the same state, or of siblings: separately for peeks, and separately for dry
// runs, which must not make others fail. It reports whether any sum has changed.
func (c *call) sumUp() (changed bool) {
	for i := range c.pairs {
		p := &c.pairs[i]
		if !p.decides() || !c.overlap && !c.mayOverlap(p) { // all sums are single costs
			continue
		}
		for j := range p.asks {
			a := &p.asks[j]
			asked := a.costOf(p)
			for k := range c.pairs {
				q := &c.pairs[k]
				for l := range q.asks {
					b := &q.asks[l]
					if p == q || !q.decides() || a.Limit.Kind != b.Limit.Kind || a.id != b.id {
						continue
					}
					c.overlap = true
					if p.DryRun == q.DryRun && p.Kind != Peek && q.Kind != Peek {
						asked = min(asked+b.costOf(q), algorithm.MaxExact)
					}
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
	for i := range c.pairs {
		p := &c.pairs[i]
		if p.DryRun != dryRun || !p.decides() {
			continue
		}
		for j := range p.asks {
			a := &p.asks[j]
			a.decide(p, a.asked)
			if a.wait = 0; a.retry > 0 && p.MaxWait > 0 {
				a.book(p)
			}
			admitted = admitted && a.retry == 0
		}
	}
	return admitted
}

// decide sets how long it takes until the limit admits cost, whatever the pair of p holds and while it is banned.
func (a *ask) decide(p *pair, cost int64) {
	a.retry = a.Limit.Row.Open(&a.State, cost)
	if p.cells == nil || a.retry == algorithm.Never {
		return
	}
	if held := a.held(p); held > 0 && a.retry == 0 && a.Limit.Row.Report(&a.State).Remaining < cost+held {
		a.retry = algorithm.HoldHint
	}
	a.retry = max(a.retry, p.banned)
}

// held returns what requests in flight hold of the limit.
func (a *ask) held(p *pair) int64 {
	switch {
	case p.cells == nil:
		return 0
	case a.Limit.Row.Counts:
		return p.count
	}
	return p.cost
}

// book books a turn for a request that does not fit now, if the turn comes soon enough. Otherwise it sets retry to the
// time after which the same request would get a turn. No request waits for the holds of others, because nobody knows
// when they end.
func (a *ask) book(p *pair) {
	switch {
	case a.held(p) > 0:
	case a.retry > p.MaxWait:
		a.retry -= p.MaxWait
	case a.CanBook(a.asked, p.ban()):
		a.retry, a.wait = 0, a.retry
	}
}

// ban returns how long the pair is banned, in microseconds.
func (p *pair) ban() int64 {
	if p.cells == nil {
		return 0
	}
	return p.banned
}

// commit charges the dry runs or the others, or holds their cost: those that all their limits admit. It reports false, and has
// charged nothing, if there is no room for the states of all that must be charged together.
func (c *call) commit(dryRun bool) bool {
	if c.lacks && c.placeAll(dryRun) {
		if c.findAll(); len(c.pairs) > 1 && c.sumUp() && !c.decide(dryRun) && !dryRun {
			return false
		}
	}
	for i := range c.pairs {
		p := &c.pairs[i]
		if !p.charges(dryRun) {
			continue
		}
		if c.overlap && c.place(p) { // the siblings of one call may be too many
			c.findAll()
		}
		switch p.Kind {
		case Hold:
			p.cells.Hold(c.now, p.Cost, 1, p.Limits)
			c.changed(p)
		default:
			for j := range p.asks {
				c.charge(p, &p.asks[j], p.Cost)
			}
		}
	}
	return true
}

// charges reports whether p is one of the dry runs or of the others, asks for a charge, and all its limits admit it.
func (p *pair) charges(dryRun bool) bool {
	if p.DryRun != dryRun || p.Kind != Take && p.Kind != Hold {
		return false
	}
	for i := range p.asks {
		if p.asks[i].retry != 0 {
			return false
		}
	}
	return true
}

// charge adds cost to the state of a, an ask of p.
func (c *call) charge(p *pair, a *ask, cost int64) {
	row := a.Limit.Row
	if c.overlap { // another ask may have changed the state
		behind := a.Behind
		row.Open(&a.State, a.asked)
		a.Behind = behind
	}
	if a.wait > 0 {
		row.Book(&a.State, cost, p.ban())
	} else {
		row.Charge(&a.State, cost)
	}
	if a.added {
		p.shard.endsAt(row.Ends(a.Stored))
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

// report sets answers.
func (c *call) report(answers []Answer) {
	n := 0
	for i := range c.pairs {
		p := &c.pairs[i]
		if !p.decides() {
			continue
		}
		for j := range p.asks {
			a, answer := &p.asks[j], &answers[n]
			n++
			row := a.Limit.Row
			if c.overlap { // another ask may have changed the state
				row.Open(&a.State, a.asked)
			}
			u := row.Report(&a.State)
			if p.cells != nil {
				u = u.Less(a.held(p), p.banned)
			}
			answer.Retry, answer.Wait, answer.Usage = a.retry, a.wait, u
		}
	}
}
