package oracle

import "github.com/spillgate/spillgate/core"

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

// send sends a call to the store.
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

// arrive hands the reply to the process.
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
