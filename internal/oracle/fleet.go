package oracle

import (
	"errors"
	"maps"
	"slices"

	"github.com/spillgate/spillgate/core"
)

// A fleet simulates processes that lease one key from one store, over a network that delays and loses calls. Instants are on
// the store's clock, in microseconds since the Unix epoch, unless said otherwise.
type fleet struct {
	events
	open      func(length int64) Holder
	limits    []core.Limit
	length    int64 // of a lease, on the clock of a process
	deadline  int64 // of a call, on the clock of the store
	store     Model
	stalled   int64 // the store decides nothing before
	delay     int64 // of a call, and of its reply
	loseCalls int   // how many of the next calls are lost
	loseReply int   // how many of the next replies are lost
	processes []*process
	ledger    ledger
	Summary
}

// A Summary counts what happened in a schedule.
type Summary struct {
	Leased, Asked, Denied, Failed int // requests: decided by a lease, sent to the store, denied, failed
	Returned                      int64
	Crashes, Lost, Refunds        int
}

// A process has a clock of its own. After a crash a new process takes its place and holds nothing.
type process struct {
	fleet         *fleet
	holder        Holder
	rate          int64 // how far its clock advances in 1000 microseconds
	offset, begun int64
	dead          bool
	waiting       []*request // for the loan in flight
}

// A request is made by a process. Most claim the leased key alone.
type request struct {
	process *process
	cost    int64
	other   bool // it also claims a key that is not leased
	denied  bool // the claim for that key will be denied
	taken   []share
	took    Portion // from its lease; empty if the store decided it
	sent    int64   // the tick at which the store was asked
	at      int64   // the instant of its decision
	known   int64   // the instant of its decision, as its process estimates it
	done    bool
	// refunded is set once the request has been refunded.
	refunded bool
}

// A returnedPortion is a portion that a process returns to the store, with the charges that the portion comes from.
type returnedPortion struct {
	Portion
	of []share
}

func (p *process) clock() int64 { return p.offset + (p.fleet.now-p.begun)*p.rate/1000 }

func (f *fleet) restart(i int, rate, offset int64) {
	p := &process{fleet: f, holder: f.open(f.length), rate: rate, offset: offset, begun: f.now}
	if i == len(f.processes) {
		f.processes = append(f.processes, p)
	} else {
		f.processes[i].dead = true
		f.ledger.strand(f.processes[i])
		f.Crashes++
		f.processes[i] = p
	}
	p.sweep()
}

// sweep returns what has ended to the store, twice in each lease.
func (p *process) sweep() {
	p.fleet.after(p.fleet.length/2, func() {
		if p.dead {
			return
		}
		if unused := p.holder.Ended(p.clock()); len(unused) > 0 {
			p.send(&call{returns: p.prepareReturns(unused)})
		}
		p.sweep()
	})
}

// decide decides a request from the lease of its process, or sends the request to the store.
func (p *process) decide(r *request, waited bool) {
	a := p.holder.Ask(p.clock(), r.cost, waited)
	switch {
	case a.Taken.Count > 0:
		r.taken, r.took = p.fleet.ledger.find(p, a.Taken, (*charge).asUsed), a.Taken
		r.at, r.known = p.fleet.now, a.At
		p.askOther(r)
	case a.Wait:
		p.waiting = append(p.waiting, r)
		p.fleet.after(p.fleet.deadline, func() { p.tooLate(r) })
	default:
		r.sent = p.fleet.ledger.tick()
		p.fleet.Asked++
		p.send(&call{returns: p.prepareReturns(a.Unused), request: r})
	}
	if a.Want > 0 {
		p.send(&call{want: a.Want})
	}
}

// tooLate ends a request that still waits for a loan at its deadline.
func (p *process) tooLate(r *request) {
	for i, w := range p.waiting {
		if w == r {
			p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
			r.done = true
			p.fleet.Failed++
			return
		}
	}
}

// askOther asks the store for the other key of a request, if the request has one. If the store denies it, askOther puts
// back what was taken from the lease.
func (p *process) askOther(r *request) {
	f := p.fleet
	if !r.other {
		p.admit(r)
		return
	}
	f.after(2*f.delay, func() {
		switch {
		case p.dead:
		case r.denied:
			r.done = true
			f.Denied++
			f.ledger.putBack(r.taken)
			p.holder.PutBack(p.clock(), r.took)
		default:
			p.admit(r)
		}
	})
}

func (p *process) admit(r *request) {
	r.done = true
	p.fleet.Leased++
	p.fleet.ledger.admit(r)
}

// wake decides the requests that waited for a loan.
func (p *process) wake() {
	waiting := p.waiting
	p.waiting = nil
	for _, r := range waiting {
		p.decide(r, true)
	}
}

func (f *fleet) claim(cost int) core.Claim {
	return core.Claim{Rule: "leased", Key: "k", Limits: f.limits, Cost: cost}
}

// check returns all violations of the contract of leases.
func (f *fleet) check() error {
	for _, l := range f.limits {
		f.ledger.check(f, l)
	}
	f.ledger.checkCharges()
	var all []error
	for _, kind := range slices.Sorted(maps.Keys(f.ledger.found)) {
		all = append(all, f.ledger.found[kind])
	}
	return errors.Join(all...)
}

// Add adds the counts of another run.
func (s *Summary) Add(t Summary) {
	s.Leased, s.Asked, s.Denied, s.Failed = s.Leased+t.Leased, s.Asked+t.Asked, s.Denied+t.Denied, s.Failed+t.Failed
	s.Returned, s.Crashes, s.Lost, s.Refunds = s.Returned+t.Returned, s.Crashes+t.Crashes, s.Lost+t.Lost, s.Refunds+t.Refunds
}
