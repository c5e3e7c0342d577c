package core

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// Wait calls Take, and then sleeps until the request may go on: the shared form of rate.Limiter.Wait, for the jobs and
// the outgoing calls of a whole fleet. The requests of all processes go in the order in which the store has decided
// them.
//
// A denied request does not wait: look at Decision.Allowed, as after Take. If ctx has a deadline, the claims carry the
// smaller of their MaxWait and the time left; a request that is denied only because of that is charged nothing, and Wait
// returns context.DeadlineExceeded. If ctx ends before the turn of the request, Wait gives back what it was charged and
// returns the error of ctx. If ctx has ended already, nothing is charged. Otherwise, Wait returns the same errors as Take.
//
// If other claims hold something, they hold it from the turn of the request on: see Rule.MaxWait.
func (l *Limiter) Wait(ctx context.Context, claims ...Claim) (d Decision, err error) {
	ctx = orBackground(ctx)
	if err = ctx.Err(); err != nil {
		return d, err
	}
	t := new(taken)
	t.sleeps = true
	d, err = l.takeObserved(ctx, t, claims)
	switch {
	case err != nil:
	case t.late:
		err = context.DeadlineExceeded
	case t.allowed:
		err = l.await(ctx, &t.receipt)
	}
	if err != nil {
		d = Decision{}
	}
	return d, err
}

// decide decides the claims of c; r is nil for Take. It returns how long the store took. A request that may wait does so for at most
// the time left, and a dry run books no later turn. Take has no such deadline, because its caller does not wait for the turn within ctx.
func (l *Limiter) decide(ctx context.Context, r *http.Request, c *receipt) (took time.Duration, err error) {
	mayWait := func(dryRun bool) bool {
		return slices.ContainsFunc(c.claims(), func(a asked) bool { return a.dryRun == dryRun && a.rule.MaxWait > 0 })
	}
	switch {
	case r == nil && !c.sleeps || !mayWait(false) && !mayWait(true):
		return l.decideOnce(ctx, c, maxMaxWait)
	case c.sleeps && mayWait(false):
		return l.decideInTurn(ctx, r, c)
	}
	return l.decideOnce(ctx, c, timeLeft(ctx, r, c.sleeps))
}

// reserve is how much of the time left a request has for its response, give or take a half. The time left of requests with
// one deadline is rounded to it, so that they ask the store the same and share a remembered denial.
const reserve = 50 * time.Millisecond

// timeLeft returns how long a request may wait for its turn: less than until the deadline of ctx. A request of a server must
// also be served before its adapter's deadlines, unless these can be extended, and needs time for its response. r is nil for
// Limiter.Wait.
func timeLeft(ctx context.Context, r *http.Request, sleeps bool) time.Duration {
	left := maxMaxWait
	deadline, limited := ctx.Deadline()
	if limited {
		left = min(left, time.Until(deadline))
	}
	if r != nil && sleeps {
		if timeout := timeoutOf(ctx, r); timeout > 0 && !extend(ctx, 0) {
			left, limited = min(left, timeout), true
		}
	}
	switch {
	case limited && r == nil:
		left = (left - 1).Truncate(time.Microsecond)
	case limited:
		left = (left - reserve/2).Truncate(reserve)
	}
	return max(left, 0)
}

// timeoutOf returns the timeout of r's http.Server that counts while r waits: WriteTimeout or, if the server has to read a
// body later, the smaller of it and ReadTimeout. It returns 0 if there is none.
func timeoutOf(ctx context.Context, r *http.Request) time.Duration {
	s, _ := ctx.Value(http.ServerContextKey).(*http.Server)
	if s == nil {
		return 0
	}
	timeout := max(s.WriteTimeout, 0)
	if s.ReadTimeout > 0 && r.Body != nil && r.Body != http.NoBody && (timeout == 0 || s.ReadTimeout < timeout) {
		timeout = s.ReadTimeout
	}
	return timeout
}

// A DeadlineExtender is a Router that can extend the deadlines that http.Server sets for a request. Without one, no request
// waits for its turn longer than the server's WriteTimeout, and no request with a body longer than its ReadTimeout.
type DeadlineExtender interface {
	Router

	// ExtendDeadlines sets the deadlines of the request to the server's ReadTimeout and WriteTimeout, counted from the end
	// of wait. It reports false if it cannot. If wait is 0, it changes nothing and reports whether it can.
	ExtendDeadlines(wait time.Duration) bool
}

// extend extends the deadlines of Guard's request, whose context is ctx.
func extend(ctx context.Context, wait time.Duration) bool {
	e, ok := carriedBy(ctx).router.(DeadlineExtender)
	return ok && e.ExtendDeadlines(wait)
}

// deniedWithin reports whether c denies its claims only because they may wait no longer than left.
func (c *receipt) deniedWithin(left time.Duration) (late bool) {
	claims := c.claims()
	for i, own := range c.each {
		a := &claims[i]
		for _, r := range own {
			if r.Allowed || r.DryRun {
				continue
			}
			if late = r.RetryAfter <= a.rule.MaxWait-left; !late {
				return false
			}
		}
	}
	return late
}

// decideInTurn is decide for a request that sleeps until its turn. If its rules hold something, it sleeps here, since the
// request holds nothing while it waits. Otherwise, await sleeps. If no place to wait is left, it is decided as a request that must
// not wait, and once more if it is denied and a place is left then.
func (l *Limiter) decideInTurn(ctx context.Context, r *http.Request, c *receipt) (took time.Duration, err error) {
	left, claims := timeLeft(ctx, r, true), c.claims()
	waitNot := func(must bool) { // dry runs book in any case
		for i := range claims {
			claims[i].now = must && !claims[i].dryRun
		}
	}
	pairs := mayWaitFor(claims, r)
	reserved := l.waiting.reserve(pairs, nil)
	defer func() {
		if reserved { // the request does not wait
			l.waiting.answer(pairs, nil)
		}
	}()
	var early, later receipt
	for {
		waitNot(!reserved)
		early, later = c.inTurn()
		more, err := l.decideOnce(ctx, &early, left)
		if took += more; err != nil {
			return took, err
		}
		if reserved || early.allowed || !l.waiting.reserve(pairs, time.After(l.store.timeout-took)) {
			break
		}
		reserved = true
	}
	early.denyLate(ctx)
	if reserved && early.waitFrom(time.Time{}) > 0 {
		reserved = false
		if !l.enter(ctx, r, &early, pairs) {
			_ = early.settle(ctx, "", 0)
			waitNot(true)
			more, err := l.decideOnce(ctx, c, left)
			return took + more, err
		}
	}
	if !later.isEmpty() && early.allowed && pause(ctx, early.waitFrom(time.Time{})) == nil { // else await will find that ctx has ended
		l.leave(&early)
		more, err := l.decideOnce(ctx, &later, 0)
		if took += more; !later.allowed {
			early.giveBack(ctx)
		}
		if err != nil {
			return took, err
		}
		early.addLater(claims, &later)
	}
	*c = early
	c.late = c.late || reserved && c.deniedWithin(left)
	return took, nil
}

// denyLate denies the request of c, and gives back what it was charged, if the store has answered so late that its turn comes
// after the deadline of ctx.
func (c *receipt) denyLate(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	left := max(time.Until(deadline), 1) // no Wait of 0 is late
	if !ok || c.waitFrom(time.Time{}) < left {
		return
	}
	c.giveBack(ctx)
	results := c.results()
	for i := range results {
		if r := &results[i]; !r.DryRun && r.Wait >= left {
			r.Allowed, r.RetryAfter, r.Wait = false, max(r.Wait-left, time.Microsecond), 0
		}
	}
	c.keep(results)
	c.record()
	c.late = true
}

// giveBack gives back what c was charged. It adds that to what its results say is left, unless the request would have waited for it.
func (c *receipt) giveBack(ctx context.Context) {
	_ = c.settle(ctx, "", 0)
	claims := c.claims()
	for i, own := range c.each { // a single claim that was charged has a wait
		for j := range own {
			if r := &own[j]; claims[i].charged && r.Wait == 0 {
				r.Remaining += c.askedOf(i)
			}
		}
	}
}

// isAtTurn reports whether a is held or charged at the turn of its request. A claim with a Ban is, because a refund ends no ban.
func (a *asked) isAtTurn() bool {
	return a.hold || !a.peek && slices.ContainsFunc(a.set.limits, func(l Limit) bool { return l.Ban > 0 })
}

// inTurn returns what to ask for before the turn of c's request, and later at its turn. Claims that are held or charged at the turn are
// peeks of their rates before it.
func (c *receipt) inTurn() (early, later receipt) {
	early.limiter, early.nested = c.limiter, c.nested
	for _, a := range c.claims() {
		if a.isAtTurn() {
			*later.add() = a
			a.hold, a.peek = false, true
			a.set = limitSetOf(slices.DeleteFunc(slices.Clone(a.set.limits), func(l Limit) bool { return l.Algorithm == InFlight }))
			if len(a.set.limits) == 0 {
				a.by = byNobody
			}
		}
		*early.add() = a
	}
	return early, later
}

// addLater replaces the peeks in c, the decision before the turn, by later, which decides them at the turn.
func (c *receipt) addLater(claims []asked, later *receipt) {
	var results []Result
	all, held, after := c.claims(), later.claims(), later.results()
	for i, own := range c.each {
		if claims[i].isAtTurn() {
			all[i], held = held[0], held[1:]
			own = after[:all[i].resultCount()]
			after = after[len(own):]
		}
		results = append(results, own...)
	}
	if later.extra != nil && later.extra.degraded != nil {
		c.more().degraded = later.extra.degraded
	}
	c.keep(results)
	c.record()
}

// await sleeps until the request of c, which is admitted, may go on. If ctx ends first, or has ended, await gives back what the
// request was charged, and returns the error of ctx.
func (l *Limiter) await(ctx context.Context, c *receipt) error {
	if c.waits() {
		_ = pause(ctx, c.waitFrom(time.Time{}))
		l.leave(c)
	}
	err := ctx.Err()
	if err != nil {
		_ = c.settle(ctx, "", 0) // what cannot be given back stays charged
	}
	return err
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}
