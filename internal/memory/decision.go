package memory

import (
	"math/bits"

	"github.com/spillgate/spillgate/internal/algorithm"
)

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
	Retry int64 // 0 if the limit admits the cost; else microseconds until it does, or algorithm.Never
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
	names   bool  // some states may not know the rate of their ask
	overlap bool  // some asks are about one state
	dryRuns bool  // some claims are dry runs
	lacks   bool  // some pair lacks a record of its own that a charge would need
	sweeps  int   // shards that were swept for room
}

// An ask is one limit of a claim.
type ask struct {
	algorithm.State       // Stored points into the pair's own or shared record, or to empty if there is none
	claim           int   // its index in decision.claims
	asked           int64 // the cost of all asks of this state that are decided as one
	retry           int64
	wait            int64 // until the turn of a request that books it
	added           bool  // the record was added for this ask
	empty           algorithm.Packed
}

// noLog is the log of states that have none. It must not be modified, because all stores share it.
var noLog algorithm.Log

// maxRoom is how many asks a shard keeps room for.
const maxRoom = 64

// end ends d. It clears pointers, so that the room does not keep an old table in memory after the table has grown.
func (d *decision) end() {
	for i := range d.asks {
		d.asks[i].Stored = nil
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
	n := 0
	for i := range d.claims {
		c := &d.claims[i]
		d.dryRuns, d.lacks = d.dryRuns || c.DryRun, d.lacks || c.Hold
		own := asks[n : n+len(c.Limits)]
		n += len(own)
		c.shard, c.asks = s.shard(c.Pair), own
		for j := range own {
			a := &own[j]
			a.Limit, a.Now, a.Offset, a.Peek = &c.Limits[j], d.now, d.offset, c.Peek
			a.claim, a.wait, a.added = i, 0, false
			a.asked = a.costOf(c)
		}
		d.find(c)
	}
	if d.rare {
		d.endHolds()
	}
}

// find finds the records of a claim, and the records of what its pair remembers. It finds them again after records were added,
// which may have moved others. No record of a claim is removed before the decision ends.
func (d *decision) find(c *Claim) {
	s := c.shard
	own := s.of(c.Pair.id)
	if s.shared > 0 && len(own) == 0 { // the pair uses shared records
		c.note(s.of(c.Pair.shared))
	}
	own = c.note(own)
	for i := range c.asks {
		a := &c.asks[i]
		r := pick(own, a.Limit.Kind)
		if a.Own = r != nil; !a.Own {
			r = s.findShared(c.Pair, a.Limit.Kind)
			d.lacks = true
		}
		if r == nil || a.Limit.Algorithm == algorithm.InFlight { // which has no state
			a.empty = algorithm.Packed{Kind: a.Limit.Kind, At: d.now}
			a.Stored = &a.empty
			continue
		}
		a.Stored = &r.Packed
		d.names = d.names || a.Limit.Row.NameRate != nil && !a.Stored.Follows(a.Limit, d.now)
	}
	d.rare = d.rare || c.hold != nil || c.ban != nil
}

// note stores the records of a pair that belong to no limit, and returns the limits' records, which come after them.
func (c *Claim) note(records []record) (limits []record) {
	for ; len(records) > 0 && !records[0].IsLimit(); records = records[1:] {
		if r := &records[0]; r.Is(algorithm.HoldKind) {
			c.hold = r
		} else {
			c.ban = r
		}
	}
	return records
}

// take decides all claims, charges none unless every enforced one is admitted, and then charges the dry runs that fit as well.
func (d *decision) take(s *Store, answers []Answer) {
	if len(d.claims) > 1 {
		d.sumUp()
	}
	if d.names { // otherwise it changes nothing
		d.name()
	}
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
		if !d.overlap && !d.mayOverlap(own) { // all sums are single costs
			continue
		}
		for j := range own.asks {
			a := &own.asks[j]
			asked := a.costOf(own)
			for k := range d.asks {
				b := &d.asks[k]
				c := &d.claims[b.claim]
				if c == own || a.Limit.Kind != b.Limit.Kind || own.Pair.id != c.Pair.id && a.Stored != b.Stored {
					continue // not about one state
				}
				d.overlap = true
				if own.DryRun == c.DryRun && !a.Peek && !b.Peek {
					asked = min(asked+b.costOf(c), maxCost)
				}
			}
			changed = changed || asked != a.asked
			a.asked = asked
		}
	}
	return changed
}

// mayOverlap reports whether states of own may be states of another claim: they are of one pair, or pairs share them.
func (d *decision) mayOverlap(own *Claim) bool {
	for i := range d.claims {
		if c := &d.claims[i]; c != own && (c.Pair.id == own.Pair.id || c.shard == own.shard && c.shard.shared > 0) {
			return true
		}
	}
	return false
}

// costOf returns the cost of a alone, an ask of c: a limit in flight counts requests.
func (a *ask) costOf(c *Claim) int64 {
	if a.Limit.Algorithm == algorithm.InFlight {
		return 1
	}
	return c.Cost
}

// name records the rates of the request in the states, whether or not the request is admitted.
func (d *decision) name() {
	for i := range d.claims {
		c := &d.claims[i]
		for j := range c.asks {
			if a := &c.asks[j]; a.hasRecord() && a.Limit.Row.NameRate != nil {
				a.Limit.Row.NameRate(&a.State, c.held > 0)
			}
		}
	}
}

// hasRecord reports whether a record has the state of a.
func (a *ask) hasRecord() bool { return a.Stored != &a.empty }

// load brings the state of a, an ask of c, to now.
func (a *ask) load(c *Claim) {
	if a.Limit.Row.KeepsLog {
		a.Log = c.shard.logOf(a.Limit.Row, a.Stored)
	}
	a.Limit.Row.Load(&a.State)
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
			a.load(c)
			a.retry, a.wait = a.Limit.Row.Wait(&a.State, a.asked), 0
			if d.rare {
				a.waitForPair(c)
			}
			if a.retry > 0 && c.MaxWait > 0 {
				a.book(c)
			}
			admitted = admitted && a.retry == 0
		}
	}
	return admitted
}

// waitForPair makes a wait for the holds and the ban of the pair of c.
func (a *ask) waitForPair(c *Claim) {
	if a.retry == algorithm.Never {
		return
	}
	if held := a.held(c); held > 0 && a.retry == 0 {
		if a.Limit.Row.Report(&a.State).Remaining < a.asked+held {
			a.retry = algorithm.HoldHint
		}
	}
	a.retry = max(a.retry, c.banned)
}

// book books a turn for a request that does not fit now, if the turn comes soon enough. Otherwise it sets retry to the
// time after which the same request would get a turn. No request waits for the holds of others, because nobody knows
// when they end.
func (a *ask) book(c *Claim) {
	switch {
	case a.held(c) > 0:
	case a.retry > c.MaxWait:
		a.retry -= c.MaxWait
	case a.Bucket.CanBook(a.Limit, a.Now, c.banned, a.asked):
		a.retry, a.wait = 0, a.retry
	}
}

// held returns the cost that requests in flight hold of the pair of c.
func (a *ask) held(c *Claim) int64 {
	if a.Limit.Algorithm == algorithm.InFlight {
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
	if !a.hasRecord() { // in flight
		return
	}
	if d.overlap {
		a.load(c)
	}
	a.addLog(c.shard)
	if a.wait > 0 {
		a.Book(c.banned, cost)
	} else {
		a.Limit.Row.Charge(&a.State, cost)
	}
	if a.added {
		a.noteEnd(c.shard)
	}
}

// noteEnd tells s when the record of a will be idle.
func (a *ask) noteEnd(s *shard) { s.endsAt(a.Limit.Row.Ends(a.Stored)) }

// addLog adds a log to the state of a, if its algorithm keeps one and it has none.
func (a *ask) addLog(s *shard) {
	if a.Limit.Row.KeepsLog && a.Stored.Extra == 0 {
		a.Stored.Extra = s.logs.add(algorithm.Log{})
		a.Log = s.logs.at(a.Stored.Extra)
	}
}

// report sets answers.
func (d *decision) report(answers []Answer) {
	n := 0
	for i := range d.claims {
		c := &d.claims[i]
		for j := range c.asks {
			a, answer := &c.asks[j], &answers[n]
			n++
			if d.overlap { // another ask may have changed the state
				a.load(c)
			}
			u := a.Limit.Row.Report(&a.State)
			if d.rare {
				u = u.Less(a.held(c), c.banned)
			}
			answer.Retry, answer.Wait, answer.Usage = a.retry, a.wait, u
		}
	}
}
