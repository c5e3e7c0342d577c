package client

import "time"

// admit counts c as sent and returns nil if all budgets that c needs admit it. Otherwise it returns the budget that c
// must wait for longest, and why.
func (a *account) admit(c *call, now time.Time, clock uint64) (longest *budget, why pause) {
	a.need(c, now)
	for _, b := range c.budgets {
		if p := b.checkInTurn(c, now); p.wait && (longest == nil || p.known.After(why.known)) {
			longest, why = b, p
		}
	}
	if longest != nil {
		return longest, why
	}
	c.sent = clock
	for _, b := range c.budgets {
		b.enter(c, now)
	}
	if c.trying {
		a.trying = c
	}
	return nil, pause{}
}

// need sets the budgets that c needs: the budgets of its route or, if the route has had no response, the last budgets
// of its key. A call that is tried needs none of these.
func (a *account) need(c *call, now time.Time) {
	list := append(c.array[:0], &a.hold)
	if a.last != nil { // the server has limits: find out which ones this route has
		list = append(list, &c.route.first)
	}
	c.trying = false
	switch {
	case c.route.seen:
		list = append(list, c.route.budgets...)
	case a.mayTry(now):
		c.trying = true
	default:
		list = append(list, a.last...)
	}
	c.budgets = list
}

// dispatch admits the calls that wait for b, in order, until one has to wait longer.
func (a *account) dispatch(b *budget, t *Transport, now time.Time) {
	for c := b.head; c != nil; c = b.head {
		t.clock++
		other, p := a.admit(c, now, t.clock)
		switch other {
		case b:
			c.wakeAt(p.until)
			b.number(c, now)
			return
		case nil:
			b.remove(c)
			c.admitted = true
			c.wakeUp()
		default:
			b.remove(c)
			other.add(c)
			c.wakeAt(p.until)
		}
	}
}

// dispatchAll dispatches the calls that wait for any budget of a or of c. The first budget of c is the hold; the others
// may no longer belong to a.
func (a *account) dispatchAll(c *call, t *Transport, now time.Time) {
	for _, b := range c.budgets {
		a.dispatch(b, t, now)
	}
	a.dispatch(&c.route.first, t, now)
	for _, b := range a.budgets {
		a.dispatch(b, t, now)
	}
}
