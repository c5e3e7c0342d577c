package memory

import (
	"math/bits"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// Never is the Retry of a cost that can never be admitted.
const Never = -1

// A Claim asks for a cost of one pair.
type Claim struct {
	Pair   Pair
	Limits []algorithm.Limit // compiled, valid and of different kinds
	Cost   int64             // at least 1, at most algorithm.MaxExact
	Peek   bool              // decide for Cost, charge nothing
	DryRun bool              // never deny; charge if the claim fits and the request is admitted
	Hold   bool              // hold Cost instead of charging it

	MaxWait int64 // microseconds that the request may wait for its turn; Limits are token buckets then
}

// An Answer is the result of one limit of a claim.
type Answer struct {
	Retry int64 // 0 if the limit admits the cost; else microseconds until it does, or Never
	Wait  int64 // microseconds until the turn of a request that is admitted
	Usage algorithm.Usage
}

// A decision is the work on all claims of one request, while the locks of their shards are held.
type decision struct {
	room
	held    uint64 // the shards
	now     int64
	offset  int64 // of the wall clock
	rare    bool  // some pair holds something or is banned
	overlap bool  // some asks are about one state
	dryRuns bool  // some claims are dry runs
	lacks   bool  // some pair lacks a record of its own that a charge would need
	sweeps  int   // shards that were swept for room
}

// A room is where a decision is made. Each shard has one, for decisions that lock it first, so that a decision allocates nothing.
type room struct {
	claims []claim
	asks   []ask
}

// A claim is the working state of a Claim or a Settlement in a decision.
type claim struct {
	pair                Pair
	shard               *shard
	asks                []ask // for its limits
	cost, maxWait       int64
	peek, dryRun, holds bool

	// The state of the pair that is independent of its limits.
	hold     *record // nil if there is none
	ban      *record // nil if the pair is not banned
	heldCost int64
	held     int64 // requests
	banned   int64 // microseconds
}

// An ask is one limit of a claim.
type ask struct {
	limit *algorithm.Limit
	claim *claim
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

// add adds a claim of cost with these limits. The slice has room for it, and end has cleared all pointers to records in
// that room.
func (d *decision) add(s *Store, p Pair, limits []algorithm.Limit, cost int64, peek bool) *claim {
	d.claims = d.claims[:len(d.claims)+1]
	c, n := &d.claims[len(d.claims)-1], len(d.asks)
	d.asks = d.asks[:n+len(limits)]
	c.pair, c.shard, c.asks, c.cost, c.peek, c.holds = p, s.shard(p), d.asks[n:], cost, peek, false
	c.maxWait, c.heldCost, c.held, c.banned = 0, 0, 0, 0
	for i := range limits {
		a := &c.asks[i]
		a.limit, a.claim, a.peek, a.added, a.wait = &limits[i], c, peek, false, 0
		a.asked = a.cost()
	}
	return c
}

// maxRoom is how many asks a shard keeps room for.
const maxRoom = 64

// begin begins a decision for so many claims and asks. The caller holds the shards.
func (d *decision) begin(s *Store, claims, asks int) {
	if claims > maxRoom || asks > maxRoom {
		d.room = room{make([]claim, 0, claims), make([]ask, 0, asks)}
		return
	}
	r := &s.shards[bits.TrailingZeros64(d.held)%shards].room
	if cap(r.claims) < claims {
		r.claims = make([]claim, 0, claims)
	}
	if cap(r.asks) < asks {
		r.asks = make([]ask, 0, asks)
	}
	d.room = *r
}

// end ends d. It clears pointers, so that the room does not keep an old table in memory after the table has grown.
func (d *decision) end() {
	for i := range d.asks {
		d.asks[i].record = nil
	}
	for i := 0; d.rare && i < len(d.claims); i++ {
		d.claims[i].hold, d.claims[i].ban = nil, nil
	}
}

// open finds all states and charges what holds have become by now.
func (d *decision) open(s *Store) {
	d.now, d.offset = s.clock.read(), s.clock.offset()
	for i := range d.claims {
		d.find(&d.claims[i])
	}
	if d.rare {
		d.endHolds()
	}
}

// find finds the records of a claim, and the records of what its pair remembers.
func (d *decision) find(c *claim) {
	s, id := c.shard, c.pair.id
	if d.rare { // c may have had records before
		c.hold, c.ban = nil, nil
	}
	first := s.first(id)
	i := first
	for ; i < len(s.records) && s.records[i].id == id && !s.records[i].IsLimit(); i++ {
		c.note(&s.records[i])
	}
	if s.shared > 0 && (i == len(s.records) || s.records[first].id != id) { // the pair uses shared records
		for j := s.first(c.pair.shared); j < len(s.records) && s.records[j].id == c.pair.shared && !s.records[j].IsLimit(); j++ {
			c.note(&s.records[j])
		}
	}
	for j := range c.asks {
		a := &c.asks[j]
		a.record, a.own = s.pick(i, id, a.limit.Kind), true
		if a.record == nil {
			a.record, a.own = s.findShared(c.pair, a.limit.Kind), false
			d.lacks = true
		}
		if a.limit.Algorithm == algorithm.InFlight { // which has no state
			a.record = nil
		}
	}
	d.rare = d.rare || c.hold != nil || c.ban != nil
}

// note stores a record that does not belong to a limit.
func (c *claim) note(r *record) {
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
		for j := range d.claims[i].asks {
			a := &d.claims[i].asks[j]
			asked := a.cost()
			for k := range d.claims {
				if c := &d.claims[k]; k != i && c.mayOverlap(a.claim) {
					for n := range c.asks {
						b := &c.asks[n]
						if !a.sameState(b) {
							continue
						}
						d.overlap = true
						if a.claim.dryRun == c.dryRun && !a.peek && !b.peek {
							asked = min(asked+b.cost(), maxCost)
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
func (c *claim) mayOverlap(other *claim) bool {
	return c.pair.id == other.pair.id || c.shard == other.shard && c.shard.shared > 0
}

// sameState reports whether a and b are about one state: the state of one pair, or one that several pairs share.
func (a *ask) sameState(b *ask) bool {
	return a.limit.Kind == b.limit.Kind && (a.claim.pair.id == b.claim.pair.id || a.record != nil && a.record == b.record)
}

// cost returns the cost of a alone: a limit in flight counts requests.
func (a *ask) cost() int64 {
	if a.limit.Algorithm == algorithm.InFlight {
		return 1
	}
	return a.claim.cost
}

// name records the rates of the request in the states, whether or not the request is admitted.
func (d *decision) name() {
	for i := range d.asks {
		if a := &d.asks[i]; a.record != nil && a.limit.Row.Name != nil {
			a.limit.Row.Name(&a.record.Packed, a.limit, d.now, a.peek, a.own, a.claim.held > 0)
		}
	}
}

// load brings the state of a to now.
func (d *decision) load(a *ask) {
	p := &a.empty
	if a.record != nil {
		p = &a.record.Packed
	} else {
		a.empty = algorithm.Packed{Kind: a.limit.Kind, At: d.now}
	}
	if a.limit.Row.KeepsLog {
		a.state.Log = a.claim.shard.logOf(a.limit.Row, p)
	}
	a.limit.Row.Load(&a.state, p, a.limit, d.now, d.offset, a.own && !a.peek)
}

// evaluate decides the dry runs or the others, and reports whether all are admitted.
func (d *decision) evaluate(dryRun bool) bool {
	admitted := true
	for i := range d.asks {
		a := &d.asks[i]
		if a.claim.dryRun != dryRun {
			continue
		}
		d.load(a)
		a.retry, a.wait = Never, 0
		if a.asked <= a.limit.Capacity {
			a.retry = a.limit.Row.Wait(&a.state, a.limit, d.now, a.asked)
			if d.rare {
				a.waitForPair(d.now)
			}
			if a.retry > 0 && a.claim.maxWait > 0 {
				a.book(d.now)
			}
		}
		admitted = admitted && a.retry == 0
	}
	return admitted
}

// waitForPair makes a wait for the holds and the ban of its pair.
func (a *ask) waitForPair(now int64) {
	if held := a.held(); held > 0 && a.retry == 0 {
		if a.limit.Row.Report(&a.state, a.limit, now).Remaining < a.asked+held {
			a.retry = algorithm.HoldHint
		}
	}
	a.retry = max(a.retry, a.claim.banned)
}

// book books a turn for a request that does not fit now, if the turn comes soon enough. Otherwise it sets retry to the
// time after which the same request would get a turn. No request waits for the holds of others, because nobody knows
// when they end.
func (a *ask) book(now int64) {
	switch {
	case a.held() > 0:
	case a.retry > a.claim.maxWait:
		a.retry -= a.claim.maxWait
	case a.state.Bucket.CanBook(a.limit, now, a.claim.banned, a.asked):
		a.retry, a.wait = 0, a.retry
	}
}

// held returns the cost that requests in flight hold.
func (a *ask) held() int64 {
	if a.limit.Algorithm == algorithm.InFlight {
		return a.claim.held
	}
	return a.claim.heldCost
}

// commit charges the dry runs or the others, or holds their cost. A claim is charged if all its limits admit its cost.
func (d *decision) commit(dryRun bool) {
	for i := range d.claims {
		c := &d.claims[i]
		switch {
		case c.dryRun != dryRun || c.peek || dryRun && !c.fits(): // all others fit, or none is charged
		case c.holds:
			d.addHold(c, c.cost)
		default:
			for j := range c.asks {
				d.charge(&c.asks[j], c.cost)
			}
		}
	}
}

// fits reports whether all limits of c admit its cost.
func (c *claim) fits() bool {
	for i := range c.asks {
		if c.asks[i].retry != 0 {
			return false
		}
	}
	return true
}

// charge adds cost to the state of a, and stores it.
func (d *decision) charge(a *ask, cost int64) {
	if a.record == nil { // in flight
		return
	}
	if d.overlap {
		d.load(a)
	}
	a.addLog()
	if a.wait > 0 {
		a.state.Book(&a.record.Packed, a.limit, d.now, a.claim.banned, cost)
	} else {
		a.limit.Row.Charge(&a.state, &a.record.Packed, a.limit, d.now, cost)
	}
	if a.added {
		a.claim.shard.endsAt(a.record.ends())
	}
}

// addLog adds a log to the state of a, if its algorithm keeps one and it has none.
func (a *ask) addLog() {
	if a.limit.Row.KeepsLog && a.record.Extra == 0 {
		a.record.Extra = a.claim.shard.logs.add(algorithm.Log{})
		a.state.Log = a.claim.shard.logs.at(a.record.Extra)
	}
}

// report sets answers.
func (d *decision) report(answers []Answer) {
	for i := range d.asks {
		a := &d.asks[i]
		if d.overlap { // another ask may have changed the state
			d.load(a)
		}
		u := a.limit.Row.Report(&a.state, a.limit, d.now)
		if d.rare {
			u = u.Less(a.held(), a.claim.banned)
		}
		answers[i] = Answer{a.retry, a.wait, u}
	}
}
