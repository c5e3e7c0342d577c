// Package oracle decides claims by the definitions of the four algorithms, in exact rational numbers.
//
//	var m oracle.Model
//	want := m.Take(now, claims) // what a store must report at now
//
// It is slow and has no clock, no lock and no memory bound. Compare, CompareRandom and CompareRare compare a store with it, field by field.
// RunLeases simulates several processes that lease a key from it, with crashes and lost calls, and checks them.
//
// Waits are not computed but searched: each is the least number of microseconds after which its condition holds.
package oracle

import (
	"container/heap"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxWait is the longest wait that a result states, in microseconds.
const maxWait = 1 << 53

// A Model is a store whose clock is an argument: microseconds since the Unix epoch. The zero value is ready. Claims must
// be valid. It is not safe for concurrent use.
type Model struct{ pairs map[core.Pair]*pair }

// A pair is what the model remembers of a rule and a key.
type pair struct {
	states  map[stateID]state
	grants  []grant
	holds   holds
	banned  int64 // until this instant
	longest int64 // how long the longest ban was for, in microseconds
	reset   int64 // the instant after the last reset: charges made before it are not given back
}

// A stateID names a state of a pair. Limits that differ only in their rate, burst, buckets or ban have the same state.
type stateID struct {
	algorithm core.Algorithm
	period    time.Duration
	calendar  core.Calendar
}

func stateOf(l core.Limit) stateID {
	if l.Calendar.Unit == 0 {
		return stateID{algorithm: l.Algorithm, period: l.Period}
	}
	return stateID{algorithm: core.FixedWindow, calendar: l.In(l.Calendar.Zone).Calendar}
}

// A state is what a key has used of the limits with one stateID, in requests. Only charge, refund and grant change what is used, and
// only they forget what no longer counts: a peek or a denied request writes nothing but the repair that rewind makes.
type state interface {
	// rewind repairs what lies after now, because the clock went back.
	rewind(l core.Limit, now int64)
	// used returns how much of l is used at the instant then, if nothing is charged between now and then.
	used(l core.Limit, now, then int64) *big.Rat
	charge(l core.Limit, now, cost int64)
	// refund gives back cost, charged at an earlier instant, as far as it still counts.
	refund(l core.Limit, now, at, cost int64)
	// grant returns until when a grant of n at now counts. A state that keeps grants itself returns 0.
	grant(l core.Limit, now, n int64) (ends int64)
}

// An ask is one limit of one claim in the course of a decision.
type ask struct {
	rule            string
	id              stateID
	pair            *pair
	state           state
	limit           core.Limit
	claim           int
	first           bool // the first ask of its claim
	cost            int64
	asked           *big.Rat // the cost of all claims that are decided together
	peek, dry, hold bool
	most            time.Duration // how long the request may wait for its turn
	retry           time.Duration
	turn            time.Duration // how long the request waits for its turn, if retry is 0

	behind time.Duration // how long the request waits for siblings of other rates
}

// Take decides claims at now and returns a result per claim and limit.
func (m *Model) Take(now int64, claims []core.Claim) []core.Result {
	asks := m.open(now, claims)
	admitted := decide(asks, now, false)
	if admitted {
		commit(asks, claims, now, false)
	}
	decide(asks, now, true)
	if admitted {
		commit(asks, claims, now, true)
	}
	var results []core.Result
	for _, a := range asks {
		results = append(results, a.result(now))
	}
	return results
}

// Refund gives back at now what a Take of claims at an earlier instant charged.
func (m *Model) Refund(now, at int64, claims []core.Claim) {
	for _, c := range claims {
		if !c.Peek {
			_ = m.Settle(now, []core.Settlement{Settlement(c, time.UnixMicro(at))}) // only grants fail
		}
	}
}

// Reset forgets what was charged to pairs up to now, but not what they hold.
func (m *Model) Reset(now int64, pairs []core.Pair) {
	for _, name := range pairs {
		p := m.pair(name)
		p.end(now)
		*p = pair{states: make(map[stateID]state), holds: p.holds, reset: now + 1}
	}
}

func named(rule, key string) core.Pair {
	if rule == "" {
		rule = "default"
	}
	return core.Pair{Rule: rule, Key: key}
}

// open brings the pairs of claims to now and returns an ask for each limit of each claim.
func (m *Model) open(now int64, claims []core.Claim) []*ask {
	for _, c := range claims {
		p := m.pair(core.Pair{Rule: c.Rule, Key: c.Key})
		p.end(now)
		for _, l := range c.Limits {
			if l.Rate > 0 {
				p.state(stateOf(l)).rewind(l, now)
				if l.Algorithm == core.FixedWindow || l.Calendar.Unit != 0 {
					p.rewindWindow(l, now)
				}
			}
		}
	}
	return m.asks(claims)
}

func (m *Model) asks(claims []core.Claim) (asks []*ask) {
	for i, c := range claims {
		name, p := named(c.Rule, c.Key), m.pair(core.Pair{Rule: c.Rule, Key: c.Key})
		for j, l := range c.Limits {
			a := &ask{
				rule: name.Rule, id: stateOf(l), pair: p, state: p.state(stateOf(l)), limit: l, claim: i, first: j == 0, cost: int64(max(c.Cost, 1)),
				peek: c.Peek, dry: c.DryRun, hold: c.Hold && !c.Peek, most: c.MaxWait,
			}
			if l.Algorithm == core.InFlight {
				a.cost = 1
			}
			asks = append(asks, a)
		}
	}
	for _, a := range asks {
		a.asked = a.sum(asks)
	}
	return asks
}

func (m *Model) pair(name core.Pair) *pair {
	if m.pairs == nil {
		m.pairs = make(map[core.Pair]*pair)
	}
	name = named(name.Rule, name.Key)
	if m.pairs[name] == nil {
		m.pairs[name] = &pair{states: make(map[stateID]state)}
	}
	return m.pairs[name]
}

// sum returns the cost that a decides for: the cost of all claims of its kind that may charge the same state.
func (a *ask) sum(asks []*ask) *big.Rat {
	sum := whole(a.cost)
	for _, b := range asks {
		if b != a && b.pair == a.pair && b.id == a.id && b.dry == a.dry && !a.peek && !b.peek {
			sum.Add(sum, whole(b.cost))
		}
	}
	return sum
}

func (p *pair) state(id stateID) state {
	if p.states[id] == nil {
		switch id.algorithm {
		case core.TokenBucket:
			p.states[id] = tokenBucket{}
		case core.FixedWindow:
			p.states[id] = &fixedWindow{calendar: id.calendar}
		case core.SlidingWindow:
			p.states[id] = slidingWindow{}
		case core.SlidingLog:
			p.states[id] = slidingLog{}
		case core.InFlight:
			p.states[id] = inFlight{}
		}
	}
	return p.states[id]
}

// A call is one round trip of a process.
type call struct {
	process *process
	sent    int64
	returns []returnedPortion
	request *request // to be decided, or nil
	want    int64
	lent    Portion
	allowed bool
	loan    *charge
}

func (p *process) send(c *call) {
	f := p.fleet
	c.process, c.sent = p, f.now
	if f.loseCalls > 0 {
		f.loseCalls--
		f.Lost++
		c.strand()
		f.after(f.deadline, c.fail)
		return
	}
	f.at(max(f.now+f.delay, f.stalled), c.run)
}

// run executes a call at the store and sends the reply. If the store is stalled, the call waits.
func (c *call) run() {
	f := c.process.fleet
	if f.now < f.stalled {
		f.at(f.stalled, c.run)
		return
	}
	for _, r := range c.returns {
		f.refundReturned(r)
	}
	claim := f.claim(1)
	if r := c.request; r != nil {
		claim.Cost = int(r.cost)
		c.allowed = f.take(r, claim)
	}
	if c.want > 0 {
		c.lent = Portion{f.now, f.store.Ahead(f.now, f.claim(1), c.want)}
		c.loan = f.ledger.charge(c.process, c.lent)
	}
	arrives := f.now + f.delay
	if f.loseReply > 0 || arrives > c.sent+f.deadline {
		f.loseReply = max(0, f.loseReply-1)
		f.Lost++
		c.strand()
		f.at(max(f.now, c.sent+f.deadline), c.fail)
		return
	}
	f.at(arrives, c.arrive)
}

// take asks the store to decide a request that no lease has decided.
func (f *fleet) take(r *request, claim core.Claim) bool {
	if !f.store.Admit(f.now, claim) {
		f.ledger.checkDenial(f, r)
		return false
	}
	c := f.ledger.charge(r.process, Portion{f.now, r.cost})
	c.used, c.direct = r.cost, true
	r.taken, r.at, r.known = []share{{c, r.cost}}, f.now, f.now
	f.ledger.admit(r)
	return true
}

func (c *call) arrive() {
	p := c.process
	if p.dead {
		return
	}
	if r := c.request; r != nil {
		if r.done = true; !c.allowed {
			p.fleet.Denied++
		}
	}
	if c.want > 0 {
		c.loan.known = p.fleet.ledger.tick()
		sent := p.offset + (c.sent-p.begun)*p.rate/1000
		p.holder.Lent(p.clock(), sent, c.lent)
		p.wake()
	}
}

// fail ends a call without a reply, at its deadline.
func (c *call) fail() {
	p := c.process
	if p.dead {
		return
	}
	if c.request != nil {
		c.request.done = true
		p.fleet.Failed++
	}
	if c.want > 0 {
		p.holder.Failed(p.clock())
		p.wake()
	}
}

// strand marks the charges of a lost call, because they may stay charged.
func (c *call) strand() {
	if c.loan != nil {
		c.loan.stranded = true
	}
	for _, r := range c.returns {
		for _, s := range r.of {
			s.of.stranded = true
		}
	}
}

// A Step is one call of a timeline.
type Step struct {
	After  time.Duration // since the step before; if it is negative, the clock goes back
	Until  string        // retry, refill or reset: wait as long as a result of the last take says, plus After; "" is After alone
	Result int           // which result says so

	Verb   string // take, settle, renew, ban, reset, grant or lend
	Claims []core.Claim
	Pair   core.Pair     // to ban or to reset
	Ban    time.Duration // of the pair
	Of     int           // the step whose take or loan is settled or renewed, counted from 0
	Finals []int         // the final costs of its claims; the last one also counts for further claims; none: 0
	Grant  int           // requests for the claim
	Want   int64         // requests to lend for the claim

	id int // its number in the whole timeline
}

// Wait returns how long to wait before s, after the results of the last take.
func (s Step) Wait(last []core.Result) time.Duration {
	if s.Until == "" || len(last) == 0 {
		return s.After
	}
	r := last[s.Result%len(last)]
	wait := map[string]time.Duration{"retry": r.RetryAfter, "refill": r.RefillAfter, "reset": r.ResetAfter}[s.Until]
	if wait > longest {
		return 0
	}
	return max(0, wait+s.After)
}

func (s Step) String() string {
	var b strings.Builder
	switch {
	case s.Until != "":
		fmt.Fprintf(&b, "(%s%+d) ", s.Until, s.After)
	case s.After != 0:
		fmt.Fprintf(&b, "(%+v) ", s.After)
	}
	b.WriteString(s.Verb)
	switch s.Verb {
	case "settle":
		fmt.Fprintf(&b, " %d at %v", s.Of, s.Finals)
	case "renew":
		fmt.Fprintf(&b, " %d", s.Of)
	case "ban":
		fmt.Fprintf(&b, " %s/%s for %v", s.Pair.Rule, s.Pair.Key, s.Ban)
	case "reset":
		fmt.Fprintf(&b, " %s/%s", s.Pair.Rule, s.Pair.Key)
	case "grant":
		fmt.Fprintf(&b, " %d to", s.Grant)
	case "lend":
		fmt.Fprintf(&b, " %d to", s.Want)
	}
	for _, c := range s.Claims {
		fmt.Fprintf(&b, " {%s}", describe(c))
	}
	return b.String()
}

func describe(c core.Claim) string {
	text := fmt.Sprintf("%s/%s %v", c.Rule, c.Key, c.Limits)
	if c.Cost != 1 {
		text += fmt.Sprintf(" cost %d", c.Cost)
	}
	if c.Peek {
		text += " peek"
	}
	if c.DryRun {
		text += " dry"
	}
	if c.Hold {
		text += " hold"
	}
	if c.MaxWait > 0 {
		text += " wait " + c.MaxWait.String()
	}
	return text
}

// events runs functions in the order of their instants. Functions with the same instant run in the order they were added.
type events struct {
	now   int64
	added int
	queue eventQueue
}

type event struct {
	at    int64
	order int
	do    func()
}

func (e *events) at(at int64, do func()) {
	e.added++
	heap.Push(&e.queue, event{max(at, e.now), e.added, do})
}

func (e *events) after(d int64, do func()) { e.at(e.now+d, do) }

// advance moves now on by d and runs the events until then.
func (e *events) advance(d int64) {
	end := e.now + d
	for len(e.queue) > 0 && e.queue[0].at <= end {
		next := heap.Pop(&e.queue).(event)
		e.now = next.at
		next.do()
	}
	e.now = end
}

type eventQueue []event

func (q eventQueue) Len() int      { return len(q) }
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }

func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}

func (q *eventQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
