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
	c := &receipt{limiter: l, sleeps: true}
	if err = l.take(ctx, c, claims); err != nil {
		return d, err
	}
	if c.late {
		return d, context.DeadlineExceeded
	}
	if err = l.await(ctx, c); err != nil {
		return d, err
	}
	if c.allowed {
		err = ctx.Err() // also if there was nothing to wait for
	}
	if err != nil {
		_ = c.settle(ctx, "", 0) // what cannot be given back stays charged
		return d, err
	}
	c.view(&d)
	return d, nil
}

// decide decides claims and records them in c; r is nil for Take. It returns how long the store took.
//
// If the request may wait, its claims carry the smaller of MaxWait and the time left. Take has no such deadline, because its
// caller does not wait for the turn within ctx.
func (l *Limiter) decide(ctx context.Context, r *http.Request, c *receipt, claims []Claim) (took time.Duration, err error) {
	switch {
	case len(claims) == 0:
		c.allowed = true
		return 0, nil
	case len(claims) > maxClaims:
		return 0, tooMany(claims)
	case r == nil && !c.sleeps, !mayWait(claims):
		return l.decideOnce(ctx, c, claims)
	}
	left := timeLeft(ctx, r, c.sleeps)
	for i := range claims {
		claims[i].MaxWait = min(claims[i].MaxWait, left)
	}
	if c.sleeps {
		took, err = l.decideInTurn(ctx, r, c, claims)
		c.late = c.late || err == nil && c.deniedWithin(claims, left)
	} else {
		took, err = l.decideOnce(ctx, c, claims)
	}
	for i := range claims {
		claims[i].MaxWait = claims[i].rule.MaxWait // for observers
	}
	return took, err
}

// MayWait is for adapters. It reports whether a rule of l lets requests wait.
func (l *Limiter) MayWait() bool {
	rules, err := l.current()
	return err == nil && rules.mayWait
}

// mayWait reports whether a request may have to wait for one of claims.
func mayWait(claims []Claim) bool {
	for i := range claims {
		if c := &claims[i]; c.MaxWait > 0 && !c.DryRun {
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

// deniedWithin reports whether c denies claims only because they may wait no longer than left.
func (c *receipt) deniedWithin(claims []Claim, left time.Duration) (late bool) {
	if c.allowed {
		return false
	}
	results := c.results()
	for i := range claims {
		own := results[:c.claims()[i].resultCount()]
		results = results[len(own):]
		for _, r := range own {
			if r.Allowed || r.DryRun {
				continue
			}
			if late = claims[i].MaxWait == left && r.RetryAfter <= claims[i].rule.MaxWait-left; !late {
				return false
			}
		}
	}
	return late
}

// decideInTurn is decide for a request that sleeps until its turn. If its rules hold something, it sleeps here, since the
// request holds nothing while it waits. Otherwise, await sleeps. If too many requests wait, it is decided as if it must not.
func (l *Limiter) decideInTurn(ctx context.Context, r *http.Request, c *receipt, claims []Claim) (took time.Duration, err error) {
	l.waiting.restrict(claims, r)
	asked := beforeTurn(claims)
	took, err = l.decideOnce(ctx, c, asked)
	if err == nil {
		c.denyLate(ctx)
	}
	if err == nil && c.waitFrom(time.Time{}) > 0 && !l.enter(ctx, r, c) {
		_ = c.settle(ctx, "", 0)
		c.forget()
		for i := range claims {
			if !claims[i].DryRun {
				claims[i].MaxWait = 0
			}
		}
		asked = beforeTurn(claims)
		var more time.Duration
		more, err = l.decideOnce(ctx, c, asked)
		took += more
	}
	if &asked[0] == &claims[0] || err != nil {
		return took, err
	}
	if c.allowed && pause(ctx, c.waitFrom(time.Time{})) == nil {
		more, err := l.holdNow(ctx, c, claims)
		return took + more, err
	}
	copy(claims, asked) // denied, or await will find that ctx has ended
	return took, nil
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
	claims := c.claims()
	for i := range claims {
		claims[i].charged = false
	}
	c.allowed, c.late = false, true
}

// beforeTurn returns what to ask for claims before the turn of their request: a claim that is held becomes a peek of its
// rates. If there is none, beforeTurn returns claims.
func beforeTurn(claims []Claim) []Claim {
	asked := claims
	for i := range claims {
		claims[i].open, claims[i].local = false, false
		if !claims[i].Hold {
			continue
		}
		if &asked[0] == &claims[0] {
			asked = slices.Clone(claims)
		}
		c := &asked[i]
		if c.Hold, c.Peek = false, true; c.set.inFlight {
			c.set = limitSetOf(slices.DeleteFunc(slices.Clone(c.Limits), func(l Limit) bool { return l.Algorithm == InFlight }))
			c.Limits = c.set.limits
			c.open = len(c.Limits) == 0
		}
	}
	return asked
}

// holdNow makes the holds of claims for a request that has had its turn. If that fails, all that the request was charged is
// given back.
func (l *Limiter) holdNow(ctx context.Context, c *receipt, claims []Claim) (took time.Duration, err error) {
	l.leave(c)
	held := slices.DeleteFunc(slices.Clone(claims), func(c Claim) bool { return !c.Hold })
	later := receipt{limiter: l}
	took, err = l.decideOnce(ctx, &later, held)
	if err != nil || !later.allowed {
		_ = c.settle(ctx, "", 0)
	}
	if err == nil {
		c.addHeld(claims, &later)
	}
	return took, err
}

// addHeld adds later, the decision about those of claims that are held, to c, the decision about the others.
func (c *receipt) addHeld(claims []Claim, later *receipt) {
	before, after := c.results(), later.results()
	results := make([]Result, 0, len(before)+len(after))
	n := 0
	for i := range claims {
		from := c.claims()[i]
		peeked := from.resultCount()
		if own := before[:peeked]; !claims[i].Hold {
			results = append(results, own...)
		} else {
			from = later.claims()[n]
			held := from.resultCount()
			results, after = append(results, after[:held]...), after[held:]
			n++
		}
		before = before[peeked:]
		claims[i].open, claims[i].local = from.open, from.local
	}
	degraded := later.degraded()
	if degraded == nil {
		degraded = c.degraded()
	}
	c.forget()
	if degraded != nil {
		c.more().degraded = degraded
	}
	c.record(claims, results)
}

// resultCount returns how many results c has.
func (c *receiptClaim) resultCount() int {
	if c.open {
		return 0
	}
	return len(c.set.limits)
}

// await sleeps until the request of c, which was decided, may go on. If ctx ends first, all that it was charged is given
// back, and await returns the error of ctx.
func (l *Limiter) await(ctx context.Context, c *receipt) error {
	if c.extra == nil || len(c.extra.waits.pairs) == 0 {
		return nil
	}
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
