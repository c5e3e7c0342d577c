package client

import (
	"slices"
	"time"
)

// settle ends the sending of c, learns from rep and dispatches the calls that wait. An empty rep stands for an error.
func (a *account) settle(c *call, rep *report, now time.Time, t *Transport) {
	for _, b := range c.budgets {
		b.leave(c, now)
	}
	assumed := a.last
	named := a.match(c, rep)
	if rep.status != 0 {
		a.answer(c, rep, named, now, t.clock)
	}
	if a.trying == c {
		a.trying = nil
		a.strict = rep.denied && (named == nil || slices.Equal(named, assumed))
	}
	if rep.denied || rep.unavailable {
		a.denied(c, rep, named, now, t.clock)
	}
	a.dispatchAll(c, t, now)
}

// match returns the budgets that rep names, one for each of its states, and records them for the route and for the key.
func (a *account) match(c *call, rep *report) []*budget {
	var array [maxStates]*budget
	named := array[:0]
	for _, s := range rep.states[:rep.n] {
		if b := a.find(s.name); b != nil {
			rep.states[len(named)] = s
			named = append(named, b)
		}
	}
	rep.n = len(named)
	if rep.n == 0 {
		return nil
	}
	if !slices.Equal(named, c.route.budgets) {
		c.route.budgets = slices.Clone(named)
	}
	a.last = c.route.budgets
	return a.last
}

// answer learns from a response.
func (a *account) answer(c *call, rep *report, named []*budget, now time.Time, clock uint64) {
	if !rep.holdsKey() {
		a.hold.open(c)
	}
	c.route.first.open(c)
	failed := rep.status >= 500 || rep.denied
	if rep.cached {
		return
	}
	if named != nil || !failed {
		c.route.seen = true
	}
	for i, b := range named {
		b.observe(c, &rep.states[i], now, rep, clock)
	}
	if named == nil && !failed {
		for _, b := range c.budgets[1:] { // the server no longer names limits
			b.counted = false
			b.open(c)
		}
	}
}

// observe updates b from its state in a response. After a denial, denied closes b.
func (b *budget) observe(c *call, s *state, now time.Time, rep *report, clock uint64) {
	b.status = rep.status
	if b.limit = max(b.limit, s.left); s.limit > 0 {
		b.limit = s.limit
	}
	b.learn(s, b.limit, now, c.sent, clock)
	b.counted = !s.otherUnit
	b.low.add(s.left, c.sent, clock)
	switch {
	case s.left > 0 || s.otherUnit && !s.hasReset:
		b.open(c)
	case rep.denied:
	case s.wait > 0:
		b.close(now, s.wait, rep.status, clock)
	default:
		b.close(now, shortPause, rep.status, clock)
	}
}

// denied closes the budgets that are used up or, if a denial names none, all of the key.
func (a *account) denied(c *call, rep *report, named []*budget, now time.Time, clock uint64) {
	longest := -1
	for i := range named {
		if s := &rep.states[i]; s.left == 0 && (longest < 0 || s.wait > rep.states[longest].wait) {
			longest = i
		}
	}
	if rep.holdsKey() {
		a.hold.denied(c, now, rep.retry, rep.status, clock)
		a.hold.width = 1
		return
	}
	for i, b := range named {
		s := &rep.states[i]
		if s.left > 0 {
			continue
		}
		wait := s.wait
		if rep.hasRetry && (i == longest || wait <= 0 || wait > rep.retry) {
			wait = rep.retry // it takes precedence
		}
		b.denied(c, now, wait, rep.status, clock)
	}
}
