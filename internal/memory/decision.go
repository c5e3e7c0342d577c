package memory

import (
	"math/bits"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// Never is the Retry of a cost that can never be admitted.
const Never = -1

// A Claim asks for a cost of one pair. It must not be used again.
type Claim struct {
	Pair   Pair
	Limits []algorithm.Limit // compiled, valid and of different kinds
	Cost   int64             // at least 1, at most algorithm.MaxExact
	Peek   bool              // decide for Cost, charge nothing
	DryRun bool              // never deny; charge if the claim fits and the request is admitted
	Hold   bool              // hold Cost instead of charging it

	MaxWait int64 // microseconds that the request may wait for its turn; Limits are token buckets then

	shard *shard
	asks  []ask // for its limits

	// The state of the pair that is independent of its limits.
	hold     *record // nil if there is none
	ban      *record // nil if the pair is not banned
	heldCost int64
	held     int64 // requests
	banned   int64 // microseconds
}

// An Answer is the result of one limit of a claim.
type Answer struct {
	Retry int64 // 0 if the limit admits the cost; else microseconds until it does, or Never
	Wait  int64 // microseconds until the turn of a request that is admitted
	Usage algorithm.Usage
}

// A decision is the work on all claims of one request, while the locks of their shards are held.
type decision struct {
	claims  []Claim
	asks    []ask  // of all claims
	held    uint64 // the shards
	now     int64
	offset  int64 // of the wall clock
	rare    bool  // some pair holds something or is banned
	overlap bool  // some asks are about one state
	dryRuns bool  // some claims are dry runs
	lacks   bool  // some pair lacks a record of its own that a charge would need
	sweeps  int   // shards that were swept for room
}

// An ask is one limit of a claim.
type ask struct {
	limit *algorithm.Limit
	peek  bool  // charge nothing
	asked int64 // the cost of all asks of this state that are decided as one
	retry int64
	wait  int64 // until the turn of a request that books it

	record *record // the pair's own record or, if own is false, the record that it shares; nil if there is none
	own    bool
	added  bool // record was added for this ask

	state algorithm.State
	empty algorithm.Packed // of a state without a record
}

// noLog is the log of states that have none. It must not be modified, because all stores share it.
var noLog algorithm.Log

// maxRoom is how many asks a shard keeps room for.
const maxRoom = 64

// end ends d. It clears pointers, so that the room does not keep an old table in memory after the table has grown.
func (d *decision) end() {
	for i := range d.asks {
		d.asks[i].record = nil
	}
}

// open begins a decision about d.claims, which have so many limits together: it finds all states, and charges what holds
// have become by now. The caller holds the shards of the claims. Each shard has room for the asks of decisions that lock
// it first, so that a decision allocates nothing.
func (d *decision) open(s *Store, limits int) {
	room := &s.shards[bits.TrailingZeros64(d.held)%shards].room
	asks := *room
	if len(asks) < limits {
		asks = make([]ask, limits)
		if limits <= maxRoom {
			*room = asks
		}
	}
	d.asks = asks[:limits]
	d.now, d.offset = s.clock.read(), s.clock.offset()
	for i := range d.claims {
		c := &d.claims[i]
		c.shard = s.shard(c.Pair)
		c.asks, asks = asks[:len(c.Limits)], asks[len(c.Limits):]
		for j := range c.asks {
			a := &c.asks[j]
			a.limit, a.peek, a.added, a.wait = &c.Limits[j], c.Peek, false, 0
			a.asked = a.costOf(c)
		}
		d.find(c)
	}
	if d.rare {
		d.endHolds()
	}
}

// find finds the records of a claim, and the records of what its pair remembers.
func (d *decision) find(c *Claim) {
	s, id := c.shard, c.Pair.id
	c.hold, c.ban = nil, nil
	first := s.first(id)
	i := first
	for ; i < len(s.records) && s.records[i].id == id && !s.records[i].IsLimit(); i++ {
		c.note(&s.records[i])
	}
	if s.shared > 0 && (i == len(s.records) || s.records[first].id != id) { // the pair uses shared records
		for j := s.first(c.Pair.shared); j < len(s.records) && s.records[j].id == c.Pair.shared && !s.records[j].IsLimit(); j++ {
			c.note(&s.records[j])
		}
	}
	for j := range c.asks {
		a := &c.asks[j]
		a.record, a.own = s.pick(i, id, a.limit.Kind), true
		if a.record == nil {
			a.record, a.own = s.findShared(c.Pair, a.limit.Kind), false
			d.lacks = true
		}
		if a.limit.Algorithm == algorithm.InFlight { // which has no state
			a.record = nil
		}
	}
	d.rare = d.rare || c.hold != nil || c.ban != nil
}

// note stores a record that does not belong to a limit.
func (c *Claim) note(r *record) {
	if r.Is(algorithm.HoldKind) {
		c.hold = r
	} else {
		c.ban = r
	}
}

// take decides all claims, charges none unless every enforced one is admitted, and then charges the dry runs that fit as well.
func (d *decision) take(s *Store, answers []Answer) {
	if len(d.claims) > 1 {
		d.sumUp()
	}
	d.name()
	admitted := d.evaluate(false)
	if admitted && d.lacks && d.place(s) {
		admitted = d.evaluate(false)
	}
	if admitted {
		d.commit(false)
	}
	if d.dryRuns {
		d.evaluate(true)
		if admitted {
			d.commit(true)
		}
	}
	d.report(answers)
}

// sumUp adds up the costs of all asks of the same state: separately for peeks, and separately for dry runs, which must
// not make others fail. It reports whether any sum has changed.
func (d *decision) sumUp() (changed bool) {
	for i := range d.claims {
		own := &d.claims[i]
		for j := range own.asks {
			a := &own.asks[j]
			asked := a.costOf(own)
			for k := range d.claims {
				if c := &d.claims[k]; k != i && c.mayOverlap(own) {
					for n := range c.asks {
						b := &c.asks[n]
						if a.limit.Kind != b.limit.Kind || own.Pair.id != c.Pair.id && (a.record == nil || a.record != b.record) {
							continue // not about one state
						}
						d.overlap = true
						if own.DryRun == c.DryRun && !a.peek && !b.peek {
							asked = min(asked+b.costOf(c), maxCost)
						}
					}
				}
			}
			changed = changed || asked != a.asked
			a.asked = asked
		}
	}
	return changed
}

// mayOverlap reports whether states of c may be states of other: they are of one pair, or pairs share them.
func (c *Claim) mayOverlap(other *Claim) bool {
	return c.Pair.id == other.Pair.id || c.shard == other.shard && c.shard.shared > 0
}

// costOf returns the cost of a alone, an ask of c: a limit in flight counts requests.
func (a *ask) costOf(c *Claim) int64 {
	if a.limit.Algorithm == algorithm.InFlight {
		return 1
	}
	return c.Cost
}

// name records the rates of the request in the states, whether or not the request is admitted.
func (d *decision) name() {
	for i := range d.claims {
		c := &d.claims[i]
		for j := range c.asks {
			if a := &c.asks[j]; a.record != nil && a.limit.Row.Name != nil {
				a.limit.Row.Name(&a.record.Packed, a.limit, d.now, a.peek, a.own, c.held > 0)
			}
		}
	}
}

// load brings the state of a, an ask of c, to now.
func (d *decision) load(c *Claim, a *ask) {
	p := &a.empty
	if a.record != nil {
		p = &a.record.Packed
	} else {
		a.empty = algorithm.Packed{Kind: a.limit.Kind, At: d.now}
	}
	if a.limit.Row.KeepsLog {
		a.state.Log = c.shard.logOf(a.limit.Row, p)
	}
	a.limit.Row.Load(&a.state, p, a.limit, d.now, d.offset, a.own && !a.peek)
}

// evaluate decides the dry runs or the others, and reports whether all are admitted.
func (d *decision) evaluate(dryRun bool) bool {
	admitted := true
	for i := range d.claims {
		c := &d.claims[i]
		if c.DryRun != dryRun {
			continue
		}
		for j := range c.asks {
			a := &c.asks[j]
			d.load(c, a)
			a.retry, a.wait = Never, 0
			if a.asked <= a.limit.Capacity {
				a.retry = a.limit.Row.Wait(&a.state, a.limit, d.now, a.asked)
				if d.rare {
					a.waitForPair(c, d.now)
				}
				if a.retry > 0 && c.MaxWait > 0 {
					a.book(c, d.now)
				}
			}
			admitted = admitted && a.retry == 0
		}
	}
	return admitted
}

// waitForPair makes a wait for the holds and the ban of the pair of c.
func (a *ask) waitForPair(c *Claim, now int64) {
	if held := a.held(c); held > 0 && a.retry == 0 {
		if a.limit.Row.Report(&a.state, a.limit, now).Remaining < a.asked+held {
			a.retry = algorithm.HoldHint
		}
	}
	a.retry = max(a.retry, c.banned)
}

// book books a turn for a request that does not fit now, if the turn comes soon enough. Otherwise it sets retry to the
// time after which the same request would get a turn. No request waits for the holds of others, because nobody knows
// when they end.
func (a *ask) book(c *Claim, now int64) {
	switch {
	case a.held(c) > 0:
	case a.retry > c.MaxWait:
		a.retry -= c.MaxWait
	case a.state.Bucket.CanBook(a.limit, now, c.banned, a.asked):
		a.retry, a.wait = 0, a.retry
	}
}

// held returns the cost that requests in flight hold of the pair of c.
func (a *ask) held(c *Claim) int64 {
	if a.limit.Algorithm == algorithm.InFlight {
		return c.held
	}
	return c.heldCost
}

// commit charges the dry runs or the others, or holds their cost. A claim is charged if all its limits admit its cost.
func (d *decision) commit(dryRun bool) {
	for i := range d.claims {
		c := &d.claims[i]
		switch {
		case c.DryRun != dryRun || c.Peek || dryRun && !c.fits(): // all others fit, or none is charged
		case c.Hold:
			d.addHold(c, c.Cost)
		default:
			for j := range c.asks {
				d.charge(c, &c.asks[j], c.Cost)
			}
		}
	}
}

// fits reports whether all limits of c admit its cost.
func (c *Claim) fits() bool {
	for i := range c.asks {
		if c.asks[i].retry != 0 {
			return false
		}
	}
	return true
}

// charge adds cost to the state of a, an ask of c, and stores it.
func (d *decision) charge(c *Claim, a *ask, cost int64) {
	if a.record == nil { // in flight
		return
	}
	if d.overlap {
		d.load(c, a)
	}
	a.addLog(c.shard)
	if a.wait > 0 {
		a.state.Book(&a.record.Packed, a.limit, d.now, c.banned, cost)
	} else {
		a.limit.Row.Charge(&a.state, &a.record.Packed, a.limit, d.now, cost)
	}
	if a.added {
		c.shard.endsAt(a.record.ends())
	}
}

// addLog adds a log to the state of a, if its algorithm keeps one and it has none.
func (a *ask) addLog(s *shard) {
	if a.limit.Row.KeepsLog && a.record.Extra == 0 {
		a.record.Extra = s.logs.add(algorithm.Log{})
		a.state.Log = s.logs.at(a.record.Extra)
	}
}

// report sets answers.
func (d *decision) report(answers []Answer) {
	n := 0
	for i := range d.claims {
		c := &d.claims[i]
		for j := range c.asks {
			a := &c.asks[j]
			if d.overlap { // another ask may have changed the state
				d.load(c, a)
			}
			answer := &answers[n]
			n++
			answer.Retry, answer.Wait, answer.Usage = a.retry, a.wait, a.limit.Row.Report(&a.state, a.limit, d.now)
			if d.rare {
				answer.Usage = answer.Usage.Less(a.held(c), c.banned)
			}
		}
	}
}
