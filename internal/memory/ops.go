package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// settleAll does ops that are not decided.
func (c *call) settleAll() error {
	for i := range c.ops {
		o := &c.ops[i]
		if o.N = min(o.N, algorithm.MaxExact); o.Kind == Grant && !o.hasRoom() {
			return ErrFull
		}
	}
	for i := range c.ops {
		o := &c.ops[i]
		if i > 0 { // earlier ops may have moved records
			c.find(o, false)
		}
		switch o.Kind {
		case Adjust:
			c.adjust(o, o.At)
		case Release:
			c.release(o)
		case Renew:
			if released, ok := o.cells.Release(o.At, o.Cost, o.Limits); ok {
				o.cells.Hold(c.now, released, 1, o.Limits)
				o.At = c.now
				c.changed(o)
			}
		case Ban:
			c.place(o)
			o.cells.Ban(c.now, o.N)
			c.changed(o)
		case Grant:
			c.grant(o)
		case Reset:
			c.reset(o)
		}
	}
	return nil
}

// adjust makes what was charged at an instant the final cost. A dry run is charged more than it was only if that fits.
func (c *call) adjust(o *Op, at int64) {
	if more := o.N - o.Cost; more > 0 {
		if !o.DryRun || c.admits(o, more) {
			c.chargeOne(o, more)
		}
		return
	}
	begun := o.shard.forgot
	if o.cells != nil {
		reset, _ := o.cells.Reset()
		begun = max(begun, reset)
	}
	if at == NoInstant || at < begun {
		return
	}
	if o.Turn != algorithm.NoTurn && o.banned > max(0, o.Turn-c.now) { // others may wait for the end of the ban, which the level does not show
		return
	}
	for i := range o.asks {
		if a := &o.asks[i]; a.Limit.IsCharged() && (a.id == o.Pair.id || at >= o.shard.dropped) {
			a.Limit.Row.Refund(&a.State, at, o.Turn, o.Cost-o.N)
		}
	}
}

// release charges the final cost in place of what is held. A hold that has ended was charged then, and that is adjusted.
func (c *call) release(o *Op) {
	final := o.N
	if o.At != NoInstant {
		if _, ok := o.cells.Release(o.At, o.Cost, o.Limits); ok {
			c.changed(o)
		} else if ended := algorithm.EndOf(o.At); ended <= c.now {
			c.adjust(o, ended)
			return
		}
	}
	if o.DryRun && final > o.Cost && !c.admits(o, final) {
		final = o.Cost
	}
	c.chargeOne(o, final)
}

// admits reports whether all limits of o have room for cost.
func (c *call) admits(o *Op, cost int64) bool {
	o.fits = true
	for i := range o.asks {
		if a := &o.asks[i]; a.Limit.Algorithm != algorithm.InFlight {
			c.decideOne(o, a, cost)
		}
	}
	return o.fits
}

// chargeOne charges cost to all limits of o, whether it fits or not. A rate of 0 needs no state.
func (c *call) chargeOne(o *Op, cost int64) {
	if cost == 0 {
		return
	}
	for i := range o.asks {
		o.asks[i].asked = cost
	}
	c.place(o)
	for i := range o.asks {
		if a := &o.asks[i]; a.Limit.IsCharged() {
			a.Limit.Row.Charge(&a.State, cost)
		}
	}
}

// hasRoom reports whether the logs of o can hold what is granted.
func (o *Op) hasRoom() bool {
	for i := range o.asks {
		l, granted := o.asks[i].Limit, int64(0)
		if o.cells != nil {
			granted, _ = o.cells.Granted(l.Kind, o.asks[i].Now)
		}
		if l.Algorithm == algorithm.SlidingLog && l.Rate+granted+o.N > algorithm.MaxMembers {
			return false
		}
	}
	return true
}

// grant gives all limits of o more requests, or takes them away. States that the pair shares with others, because the
// store is full, stay unchanged: a grant to them would admit the others again.
func (c *call) grant(o *Op) {
	c.place(o)
	for i := range o.asks {
		a := &o.asks[i]
		switch {
		case !a.Limit.IsCharged() || a.id != o.Pair.id:
		case a.Limit.Row.Book == nil:
			if o.record.Pair == o.Pair.id {
				o.cells.Drop(c.now) // grants that have ended: holds have not
				o.cells.Grant(a.Limit.Kind, a.GrantEnds(), o.N)
			}
		case o.N > 0:
			a.GiveBack(o.N)
		default:
			l := *a.Limit
			l.Ban = 0 // requests that are taken away begin no ban
			a.Limit = &l
			l.Row.Charge(&a.State, -o.N)
		}
	}
	c.changed(o)
}

// reset forgets the states, the grants and the ban of o, unless they are shared: that would admit the other pairs again. Empty states stay,
// so that the pair does not share them with others.
func (c *call) reset(o *Op) {
	s, id := o.shard, o.Pair.id
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
		s.ensure(id, algorithm.CellsKind, 0, c.now, o.Pair.shared)
	}
	if c.find(o, false); o.record != nil && o.record.Pair == id {
		o.cells.Forget(c.now, ends)
		c.changed(o)
	}
	own, _ = s.of(id)
	for i := range own {
		if r := &own[i]; r.Kind != algorithm.CellsKind {
			s.empty(r)
			*r = record{Pair: id, Kind: r.Kind, Sibling: r.Sibling, At: c.now}
		}
	}
}
