package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// settleAll does ops that are not decided.
func (c *call) settleAll() error {
	for i := range c.pairs {
		if p := &c.pairs[i]; p.Kind == Grant && !p.hasRoom() {
			return ErrFull
		}
	}
	for i := range c.pairs {
		if i > 0 { // earlier ops may have added records
			c.find(&c.pairs[i])
		}
		c.settle(&c.pairs[i])
	}
	return nil
}

// settle does the op of p.
func (c *call) settle(p *pair) {
	switch p.Kind {
	case Adjust:
		c.adjust(p, p.At)
	case Release:
		c.release(p)
	case Renew:
		if p.cells == nil {
			return
		}
		if released, ok := p.cells.Release(p.At, p.Cost, p.Limits); ok {
			p.cells.Hold(c.now, released, 1, p.Limits)
			p.At = c.now
			c.changed(p)
		}
	case Ban:
		if c.place(p) {
			c.find(p)
		}
		p.cells.Ban(c.now + p.N)
		c.changed(p)
	case Grant:
		c.grant(p)
	case Reset:
		c.reset(p)
	}
}

// adjust makes what was charged at an instant the final cost. A dry run is charged more than it was only if that fits.
func (c *call) adjust(p *pair, at int64) {
	switch more := p.N - p.Cost; {
	case more == 0:
		return
	case more > 0:
		if !p.DryRun || p.admits(more) {
			c.chargeAll(p, more)
		}
		return
	}
	begun := p.shard.forgot
	if p.cells != nil {
		reset, _ := p.cells.Reset()
		begun = max(begun, reset)
	}
	if at == NoInstant || at < begun {
		return
	}
	if p.Turn != algorithm.NoTurn && p.banned > max(0, p.Turn-c.now) { // others may wait for the end of the ban, which the level does not show
		return
	}
	for i := range p.asks {
		if a := &p.asks[i]; a.Limit.Rate > 0 {
			a.Limit.Row.Open(&a.State, 0)
			a.Limit.Row.Refund(&a.State, at, p.Turn, p.Cost-p.N)
			p.shard.noteEnds(a)
		}
	}
}

// release charges the final cost in place of what is held. If the hold has ended, it was charged then, and that is
// adjusted.
func (c *call) release(p *pair) {
	final := p.N
	if p.At != NoInstant {
		ok := false
		if p.cells != nil {
			if _, ok = p.cells.Release(p.At, p.Cost, p.Limits); ok {
				c.changed(p)
			}
		}
		if ended := algorithm.EndOf(p.At); !ok && ended <= c.now {
			c.adjust(p, ended)
			return
		}
	}
	if p.DryRun && final > p.Cost && !p.admits(final) {
		final = p.Cost
	}
	c.chargeAll(p, final)
}

// admits reports whether all limits of p have room for cost.
func (p *pair) admits(cost int64) bool {
	for i := range p.asks {
		a := &p.asks[i]
		if a.Limit.Row.Counts {
			continue
		}
		if a.decide(cost); a.retry != 0 {
			return false
		}
	}
	return true
}

// chargeAll charges cost to all limits of p, whether it fits or not. A rate of 0 needs no state.
func (c *call) chargeAll(p *pair, cost int64) {
	if cost == 0 {
		return
	}
	for i := range p.asks {
		a := &p.asks[i]
		a.Limit.Row.Open(&a.State, cost)
		a.asked = cost
	}
	if c.place(p) {
		c.find(p)
	}
	for i := range p.asks {
		if a := &p.asks[i]; a.Limit.Rate > 0 {
			c.charge(a, cost)
		}
	}
}

// hasRoom reports whether the logs of p can hold what is granted.
func (p *pair) hasRoom() bool {
	for i := range p.asks {
		l := p.asks[i].Limit
		if l.Algorithm != algorithm.SlidingLog {
			continue
		}
		granted := int64(0)
		if p.cells != nil {
			granted, _ = p.cells.Granted(l.Kind, p.asks[i].Now)
		}
		if l.Rate+granted+p.N > algorithm.MaxMembers {
			return false
		}
	}
	return true
}

// grant gives all limits of p more requests, or takes them away. States that the pair shares with others, because the
// store is full, stay unchanged: a grant to them would admit the others again.
func (c *call) grant(p *pair) {
	for i := range p.asks {
		p.asks[i].Limit.Row.Open(&p.asks[i].State, 0)
	}
	if c.place(p) {
		c.find(p)
	}
	for i := range p.asks {
		a := &p.asks[i]
		switch {
		case a.Limit.Rate == 0 || a.Limit.Row.Counts || a.id != p.Pair.id:
		case a.Limit.Row.Book == nil:
			if p.record.Pair == p.Pair.id {
				p.cells.Drop(c.now) // grants that have ended: holds have not
				p.cells.Grant(a.Limit.Kind, a.GrantEnds(), p.N)
				c.changed(p)
			}
		case p.N > 0:
			a.GiveBack(p.N)
			p.shard.noteEnds(a)
		default:
			l := *a.Limit
			l.Ban = 0 // requests that are taken away begin no ban
			a.Limit = &l
			c.charge(a, -p.N)
		}
	}
}

// reset forgets the states, the grants and the ban of p, if they are its own: otherwise it would admit the other pairs
// again.
func (c *call) reset(p *pair) {
	s, id := p.shard, p.Pair.id
	own, _ := s.of(id)
	ends := c.now
	for i := range own {
		if own[i].Kind != algorithm.CellsKind {
			ends = max(ends, own[i].Ends())
		}
	}
	switch full := c.store.pairs.Load() >= c.store.maxKeys; {
	case len(own) == 0:
		return
	case full: // there is no room to remember the reset
		s.forgot, ends = c.now+1, c.now
	case ends > c.now:
		s.ensure(id, algorithm.CellsKind, 0, c.now, p.Pair.shared)
	}
	for _, i := s.of(id); s.records[i].Pair == id; {
		if s.records[i].Kind == algorithm.CellsKind {
			i++
		} else {
			s.removeAt(i)
		}
	}
	if c.find(p); p.record != nil && p.record.Pair == id {
		p.cells.Forget(c.now, ends)
		if c.changed(p); len(*p.cells) == 0 {
			_, first := s.of(id)
			s.removeAt(first)
		}
	}
	if !s.has(id) {
		c.store.pairs.Add(-1)
	}
}
