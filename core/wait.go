package core

import (
	"context"
	"fmt"
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
	c := &t.receipt
	if d, err = l.takeObserved(ctx, t, claims); err != nil {
		return d, err
	}
	if c.late {
		return Decision{}, context.DeadlineExceeded
	}
	if c.waits() {
		err = l.await(ctx, c)
	}
	if err == nil && c.allowed {
		if err = ctx.Err(); err != nil { // also if there was nothing to wait for
			_ = c.settle(ctx, "", 0) // what cannot be given back stays charged
		}
	}
	if err != nil {
		return Decision{}, err
	}
	return d, nil
}

// decide decides the claims of c; r is nil for Take. It returns how long the store took.
//
// A request that may wait does so for at most the time left. Take has no such deadline, because its caller does not wait for
// the turn within ctx.
func (l *Limiter) decide(ctx context.Context, r *http.Request, c *receipt) (took time.Duration, err error) {
	if r == nil && !c.sleeps || !mayWait(c.claims()) {
		return l.decideOnce(ctx, c, maxMaxWait)
	}
	left := timeLeft(ctx, r, c.sleeps)
	if !c.sleeps {
		return l.decideOnce(ctx, c, left)
	}
	took, err = l.decideInTurn(ctx, r, c, left)
	c.late = c.late || err == nil && c.deniedWithin(left)
	return took, err
}

// mayWait reports whether a request may have to wait for one of claims.
func mayWait(claims []asked) bool {
	for i := range claims {
		if a := &claims[i]; a.rule.MaxWait > 0 && !a.dryRun {
			return true
		}
	}
	return false
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
	if r == nil {
		if limited {
			left = (left - 1).Truncate(time.Microsecond)
		}
		return max(left, 0)
	}
	if sleeps {
		if timeout := timeoutOf(ctx, r); timeout > 0 && !extend(ctx, 0) {
			left, limited = min(left, timeout), true
		}
	}
	if limited {
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
// waits for its turn longer than the server's WriteTimeout.
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
	if c.allowed {
		return false
	}
	claims, results := c.claims(), c.results()
	for i := range claims {
		a := &claims[i]
		own := results[:a.resultCount()]
		results = results[len(own):]
		for _, r := range own {
			if r.Allowed || r.DryRun {
				continue
			}
			if late = a.maxWait(left) == left && r.RetryAfter <= a.rule.MaxWait-left; !late {
				return false
			}
		}
	}
	return late
}

// decideInTurn is decide for a request that sleeps until its turn. If its rules hold something, it sleeps here, since the
// request holds nothing while it waits. Otherwise, await sleeps. If too many requests wait, it is decided as if it must not.
func (l *Limiter) decideInTurn(ctx context.Context, r *http.Request, c *receipt, left time.Duration) (took time.Duration, err error) {
	claims := c.claims()
	l.waiting.restrict(claims, r)
	inTurn := slices.Clone(claims)
	holds := beforeTurn(claims)
	took, err = l.decideOnce(ctx, c, left)
	if err == nil {
		c.denyLate(ctx)
	}
	if err == nil && c.waitFrom(time.Time{}) > 0 && !l.enter(ctx, r, c) {
		_ = c.settle(ctx, "", 0)
		c.decided = false
		if c.extra != nil {
			c.extra.results, c.extra.degraded = nil, nil
		}
		for i := range inTurn {
			inTurn[i].now = inTurn[i].now || !inTurn[i].dryRun
		}
		copy(claims, inTurn)
		beforeTurn(claims)
		var more time.Duration
		more, err = l.decideOnce(ctx, c, left)
		took += more
	}
	if holds && err == nil && c.allowed && pause(ctx, c.waitFrom(time.Time{})) == nil { // else await will find that ctx has ended
		var more time.Duration
		more, err = l.holdNow(ctx, c, inTurn)
		took += more
	}
	if err != nil {
		copy(claims, inTurn) // for observers
	}
	return took, err
}

// denyLate denies the request of c, and gives back what it was charged, if the store has answered so late that its turn comes
// after the deadline of ctx.
func (c *receipt) denyLate(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	left := max(time.Until(deadline), 0)
	if !ok || c.waitFrom(time.Time{}) == 0 || c.waitFrom(time.Time{}) < left {
		return
	}
	_ = c.settle(ctx, "", 0)
	results := c.results()
	for i := range results {
		if r := &results[i]; !r.DryRun && r.Wait > 0 && r.Wait >= left {
			r.Allowed, r.RetryAfter, r.Wait = false, max(r.Wait-left, time.Microsecond), 0
		}
	}
	c.keep(results)
	claims := c.claims()
	for i := range claims {
		claims[i].charged = false
	}
	c.allowed, c.late = false, true
}

// beforeTurn changes claims to what to ask for before the turn of their request: a claim that is held becomes a peek of its
// rates. It reports whether there is one.
func beforeTurn(claims []asked) (holds bool) {
	for i := range claims {
		a := &claims[i]
		if !a.hold {
			continue
		}
		holds, a.hold, a.peek = true, false, true
		if a.set.inFlight {
			a.set = limitSetOf(slices.DeleteFunc(slices.Clone(a.set.limits), func(l Limit) bool { return l.Algorithm == InFlight }))
			if len(a.set.limits) == 0 {
				a.by = byNobody
			}
		}
	}
	return holds
}

// holdNow makes the holds of claims for the request of c, which has had its turn. If that fails, all that the request was
// charged is given back.
func (l *Limiter) holdNow(ctx context.Context, c *receipt, claims []asked) (took time.Duration, err error) {
	l.leave(c)
	later := receipt{limiter: l}
	for i := range claims {
		if claims[i].hold {
			*later.add() = claims[i]
		}
	}
	took, err = l.decideOnce(ctx, &later, 0)
	if err != nil || !later.allowed {
		_ = c.settle(ctx, "", 0)
	}
	if err == nil {
		c.addHeld(claims, &later)
	}
	return took, err
}

// addHeld adds later, the decision about those of claims that are held, to c, the decision about the others.
func (c *receipt) addHeld(claims []asked, later *receipt) {
	own, before, held, after := c.claims(), c.results(), later.claims(), later.results()
	results := make([]Result, 0, len(before)+len(after))
	for i := range claims {
		n := own[i].resultCount()
		if !claims[i].hold {
			results = append(results, before[:n]...)
		} else {
			own[i], held = held[0], held[1:]
			count := own[i].resultCount()
			results, after = append(results, after[:count]...), after[count:]
		}
		before = before[n:]
	}
	if later.extra != nil && later.extra.degraded != nil {
		c.more().degraded = later.extra.degraded
	}
	c.keep(results)
	c.record()
}

// await sleeps until the request of c, which waits, may go on. If ctx ends first, all that it was charged is given
// back, and await returns the error of ctx.
func (l *Limiter) await(ctx context.Context, c *receipt) error {
	err := pause(ctx, c.waitFrom(time.Time{}))
	l.leave(c)
	if err != nil {
		_ = c.settle(ctx, "", 0)
	}
	return err
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// cutShort is the error of a request whose context ended while it waited.
type cutShort struct{ err error }

func (e *cutShort) Error() string {
	return fmt.Sprintf("the request did not wait for its turn: %v", e.err)
}

func (e *cutShort) Unwrap() []error { return []error{ErrUnavailable, e.err} }
