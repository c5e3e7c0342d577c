package memory

import (
	"math/bits"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A call is the work on all ops of one Do, while the locks of their shards are held.
type call struct {
	ops     []Op
	shards  uint64 // that are locked
	now     int64
	offset  int64 // of the wall clock
	sweeps  int   // shards that were swept for room
	dryRuns bool  // some ops are dry runs
	denied  bool  // some op that is not a dry run does not fit
	overlap bool  // some ops are about one pair, or their pairs may share records
	lacks   bool  // some pair lacks a record of its own that a charge or a hold may need
	placed  bool  // records were added
	due     bool  // holds have ended that are not charged yet
	*room
}

// A room belongs to a shard. A call uses the room of its first op's shard, so that it allocates nothing. A room must not refer to the
// ops of a call: they would move from the stack of Do's caller to the heap.
type room struct {
	store *Store
	asks  []ask // for any call
}

// work is what a call does for one op, and what the pair remembers whatever its limits are.
type work struct {
	shard  *shard
	asks   []ask            // for its limits
	record *record          // with its cells; nil if it has none
	cells  *algorithm.Cells // nil if it has none
	cost   int64            // that requests in flight hold
	count  int64            // of requests in flight
	banned int64            // microseconds
	fits   bool             // all limits admit it
}

// An ask is one limit of an op.
type ask struct {
	algorithm.State
	id          uint64 // of the records that have the state, or will have it: the pair's, or shared ones
	asked       int64  // the cost of all asks that are decided as one
	retry, wait int64  // of its answer
}

// maxRoom is how many asks a shard keeps room for.
const maxRoom = 64

// open locks the shards of all ops in ascending order, finds the states, as they are once holds that have ended are charged, and decides
// each op as if it were alone.
func (c *call) open(s *Store) {
	ops, limits := c.ops, 0
	for i := range ops {
		o := &ops[i]
		n := o.Pair.shard()
		o.shard, c.shards = &s.shards[n], c.shards|1<<n
		o.Cost = min(max(o.Cost, 1), algorithm.MaxExact)
		c.dryRuns = c.dryRuns || o.DryRun
		limits += len(o.Limits)
	}
	for set := c.shards; set != 0; set &= set - 1 {
		s.shards[bits.TrailingZeros64(set)].Lock()
	}
	c.room = &ops[0].shard.room
	c.now, c.offset = s.read()
	asks := c.asks
	if limits > len(asks) {
		if asks = make([]ask, limits); limits <= maxRoom {
			c.asks = asks
		}
	}
	for i := range ops {
		o := &ops[i]
		limits -= len(o.Limits)
		o.asks = asks[limits:][:len(o.Limits)]
		c.find(o, o.Kind <= Hold)
	}
	if c.due { // to end holds may move records and change states
		for i := range ops {
			o := &ops[i]
			o.shard.endHolds(o.Pair.id, c.now, c.offset)
			o.shard.endHolds(o.Pair.shared, c.now, c.offset)
		}
		c.due, c.denied = false, false
		c.findAll(ops[0].Kind <= Hold)
	}
}

// costOf returns what o costs a, alone: a limit in flight counts requests.
func (o *Op) costOf(a *ask) int64 {
	if a.Limit.Algorithm == algorithm.InFlight {
		return 1
	}
	return o.Cost
}

// close unlocks the shards. It clears pointers, so that the room keeps neither limits nor a table that has grown in memory.
func (c *call) close() {
	ops := c.ops
	for i := range ops {
		asks := ops[i].asks
		for j := range asks {
			a := &asks[j]
			a.Limit, a.Stored, a.Run, a.Cells = nil, nil, nil, nil
		}
	}
	for set := c.shards; set != 0; set &= set - 1 {
		c.store.shards[bits.TrailingZeros64(set)].Unlock()
	}
}

// findAll finds the records of all pairs. It finds them again after records were added, which may have moved others.
func (c *call) findAll(decides bool) {
	for i := range c.ops {
		c.find(&c.ops[i], decides)
	}
}

// find finds the records of o, opens its states unless holds are due, and decides o as if it were alone, if decides. All states of siblings
// are the pair's own, or all are shared. The state of a limit in flight is the record of the cells.
func (c *call) find(o *Op, decides bool) {
	own, _ := o.shard.of(o.Pair.id)
	run, shared := own, []record(nil)
	if o.shard.shared > 0 {
		shared, _ = o.shard.of(o.Pair.shared)
		if c.due = c.due || o.shard.isDue(shared, c.now); len(own) == 0 {
			run = shared
		}
	}
	o.record, o.cells, o.cost, o.count, o.banned = nil, nil, 0, 0, 0
	if len(run) > 0 && run[0].Kind == algorithm.CellsKind { // which comes first
		o.record, o.cells = &run[0], o.shard.cells.At(run[0].Extra)
		c.due = c.due || o.cells.IsDue(c.now)
		o.cost, o.count, o.banned = o.cells.Sum(c.now)
	}
	if c.due { // endHolds has to charge them before the states are opened
		return
	}
	c.lacks = c.lacks || o.Kind == Hold
	o.fits = o.fits || decides
	limits := o.Limits
	for i := range limits {
		a := &o.asks[i]
		a.id, a.Now, a.Offset = o.Pair.id, c.now, c.offset
		a.Limit, a.Cells, a.Logs = &limits[i], o.cells, &o.shard.logs
		if !a.Pick(own) {
			if c.lacks = true; a.Pick(shared) {
				a.id = o.Pair.shared
			}
		}
		if a.Stored == nil || a.Limit.Ban > 0 {
			c.lacks = true
		}
		a.Open()
		if decides {
			c.decideOne(o, a, o.costOf(a))
		}
	}
}

// take charges all claims if every enforced one is admitted, and then the dry runs that fit as well.
func (c *call) take(answers []Answer) {
	if c.overlap = len(c.ops) > 1 && c.mayOverlap(); c.overlap {
		c.decide(false)
	}
	admitted := !c.denied && (!c.lacks || c.placeAll(false))
	if c.dryRuns {
		c.charge(admitted, false, nil)
		if c.overlap { // the charges may have placed and moved records
			c.findAll(false)
		}
		if c.decide(true); admitted && c.lacks {
			c.placeAll(true)
		}
	}
	if c.overlap { // answers come after all charges, which may change the states of other ops
		c.charge(admitted, c.dryRuns, nil)
		c.findAll(false)
		admitted = false
	}
	c.charge(admitted, c.dryRuns, answers)
}

// costsBeside returns the costs of all other asks of the state of a, which is o's, or of siblings: separately for peeks, and separately for
// dry runs, which must not make others fail.
func (c *call) costsBeside(o *Op, a *ask) (sum int64) {
	for i := range c.ops {
		q := &c.ops[i]
		if o == q || o.DryRun != q.DryRun || o.Kind == Peek || q.Kind == Peek {
			continue
		}
		for j := range q.asks {
			if b := &q.asks[j]; a.id == b.id && a.Limit.Kind == b.Limit.Kind {
				sum = min(sum+q.costOf(b), algorithm.MaxExact)
			}
		}
	}
	return sum
}

// mayOverlap reports whether states of an op may be states of another one: they are of one pair, or pairs share them.
func (c *call) mayOverlap() bool {
	for i := range c.ops {
		for j := range c.ops[:i] {
			if o, q := &c.ops[i], &c.ops[j]; o.Pair.id == q.Pair.id || o.shard == q.shard && o.shard.shared > 0 {
				return true
			}
		}
	}
	return false
}

// decide decides the dry runs or all ops again, each beside the others. It reports whether all ops but the dry runs are admitted.
func (c *call) decide(dryRuns bool) bool {
	c.overlap = c.overlap || c.mayOverlap()
	for i := range c.ops {
		o := &c.ops[i]
		if dryRuns && !o.DryRun {
			continue
		}
		o.fits = true
		for j := range o.asks {
			a := &o.asks[j]
			c.decideOne(o, a, min(o.costOf(a)+c.costsBeside(o, a), algorithm.MaxExact))
		}
	}
	return !c.denied
}

// decideOne decides whether a admits cost: o does not fit if a neither admits it nor gives it a turn.
func (c *call) decideOne(o *Op, a *ask, cost int64) {
	if a.asked, a.retry, a.wait = cost, 0, 0; a.Fits(cost) { // nearly always
		return
	}
	a.retry = a.WaitFor(cost, 0)
	if held := o.heldOf(a); held > 0 && a.retry == 0 { // only what the pair holds may be in the way
		var u algorithm.Usage
		if a.Report(&u, 0); u.Remaining < cost+held {
			a.retry = algorithm.HoldHint
		}
	}
	if o.banned > a.retry { // grants may end before the ban
		a.retry = a.WaitFor(cost, o.banned)
	}
	if a.retry != 0 && !o.takeTurn(a) {
		o.fits, c.denied = false, c.denied || !o.DryRun
	}
}

// heldOf returns what requests in flight hold of a.
func (o *Op) heldOf(a *ask) int64 {
	if a.Limit.Algorithm == algorithm.InFlight {
		return o.count
	}
	return o.cost
}

// takeTurn gives a request that does not fit now a turn, if that comes soon enough. Otherwise it sets Retry to the
// time after which the same request would get a turn. No request waits for the holds of others, because nobody knows
// when they end.
func (o *Op) takeTurn(a *ask) (ok bool) {
	switch {
	case a.retry == algorithm.Never || o.heldOf(a) > 0:
		return false
	case a.retry > o.MaxWait:
		a.retry -= o.MaxWait
		return false
	}
	if ok = a.CanBook(a.asked, o.banned); ok {
		a.retry, a.wait = 0, a.retry
	}
	return ok
}

// charge charges the dry runs or the others, or holds their cost, if they are admitted and fit. It sets answers, if there are any, to what is
// left of each limit.
func (c *call) charge(admitted, dryRuns bool, answers []Answer) {
	n := 0
	for i := range c.ops {
		o := &c.ops[i]
		charges := admitted && o.fits && o.DryRun == dryRuns && o.Kind != Peek
		if charges && c.overlap { // earlier ops may have moved records and changed states, and the siblings of one call may be too many
			c.find(o, false)
			c.place(o)
		}
		if charges && o.Kind == Hold {
			o.cells.Hold(c.now, o.Cost, 1, o.Limits)
			c.changed(o)
			charges = false
		}
		for j := range o.asks {
			a := &o.asks[j]
			switch row := a.Limit.Row; {
			case !charges || !a.Limit.IsCharged():
			case a.wait > 0:
				row.Book(&a.State, o.Cost, o.banned)
			default:
				row.Charge(&a.State, o.Cost)
			}
			if n < len(answers) {
				answer := &answers[n]
				answer.Retry, answer.Wait = a.retry, a.wait
				if a.Report(&answer.Usage, o.banned); a.Cells != nil && a.Limit.Rate > 0 {
					answer.Usage.Hold(o.heldOf(a), o.banned)
				}
				n++
			}
		}
	}
}

// changed sums up the cells of o, which have changed, for all ops.
func (c *call) changed(o *Op) {
	o.record.At = max(c.now, o.cells.Ends())
	for i := range c.ops {
		if q := &c.ops[i]; q.cells != nil {
			q.cost, q.count, q.banned = q.cells.Sum(c.now)
		}
	}
}
