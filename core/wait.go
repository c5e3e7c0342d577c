package core

import (
	"context"
	"fmt"
	"time"
)

// maxMaxWait is the longest MaxWait.
const maxMaxWait = time.Hour

// defaultMaxWaiting is how many requests of a limiter wait at the same time, unless WithMaxWaiting says otherwise.
const defaultMaxWaiting = 10_000

// WithMaxWaiting sets how many requests of the limiter may wait for their turn at the same time, in Wait and in adapters. Beyond
// that, a request that does not fit now is denied, as if its rules had no MaxWait. The default is 10,000.
func WithMaxWaiting(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return invalid("WithMaxWaiting: at least one request must be able to wait, got %d", n)
		}
		c.maxWaiting = n
		return nil
	}
}

// checkWait checks the MaxWait of r, whose limits may be invalid.
func (r *Rule) checkWait() error {
	if r.MaxWait == 0 {
		return nil
	}
	err := validateMaxWait(r.MaxWait)
	if r.CostAfter != nil {
		err = allOf(err, invalid("max wait must be 0 for a rule with CostAfter, which holds its cost, got %v", r.MaxWait))
	}
	if r.Lease != 0 {
		err = allOf(err, invalid("max wait must be 0 for a rule with a lease, got %v", r.MaxWait))
	}
	return allOf(err, limitsCanWait(r.MaxWait, r.Limits))
}

func validateMaxWait(d time.Duration) error {
	if 0 <= d && d <= maxMaxWait {
		return nil
	}
	return invalid("max wait must be between 0 and %v, got %v", maxMaxWait, d)
}

// limitsCanWait returns an error that says for which of limits no request can wait.
func limitsCanWait(d time.Duration, limits []Limit) (err error) {
	for i := range limits {
		if l := &limits[i]; !l.canWait() {
			err = allOf(err, invalid("max wait %v needs token buckets without a ban, got limit %d, %v", d, i+1, *l))
		}
	}
	return err
}

// canWait reports whether a request can wait for its turn under l.
func (l *Limit) canWait() bool {
	return l.Algorithm == TokenBucket && l.Ban == 0 && l.Calendar == (Calendar{})
}

// checkWait returns an error if c, whose limits are compiled, cannot wait as long as it says. It is small enough to be
// inlined: most claims do not wait.
func (c *Claim) checkWait(set *limitSet) error {
	if c.MaxWait == 0 {
		return nil
	}
	return c.validateWait(set)
}

// checkWait is Claim.checkWait for what a Take has charged, and checks for how long it let the request wait.
func (s *Settlement) checkWait(set *limitSet) error {
	claim := s.claim()
	switch {
	case claim.checkWait(set) != nil:
		return claim.checkWait(set)
	case s.Wait < 0 || s.Wait > s.MaxWait:
		return invalid("wait must be between 0 and the max wait %v, got %v", s.MaxWait, s.Wait)
	}
	return nil
}

func (c *Claim) validateWait(set *limitSet) error {
	switch {
	case validateMaxWait(c.MaxWait) != nil:
		return validateMaxWait(c.MaxWait)
	case c.Hold && !c.Peek:
		return invalid("max wait must be 0 for a claim that is held, got %v", c.MaxWait)
	case c.Lease != 0:
		return invalid("max wait must be 0 for a claim with a lease, got %v", c.MaxWait)
	case !set.waits:
		return limitsCanWait(c.MaxWait, c.Limits)
	}
	return nil
}

// Wait calls Take, and then sleeps until the request may go on: the shared form of rate.Limiter.Wait, for the jobs and
// the outgoing calls of a whole fleet. The requests of all processes go in the order in which the store has decided
// them.
//
// A denied request does not wait: look at Decision.Allowed, as after Take. If ctx ends before the turn of the request,
// Wait gives back what it was charged and returns the error of ctx; if ctx has a deadline before the turn, it does so
// at once. If ctx has ended already, nothing is charged. Otherwise, Wait returns the same errors as Take.
func (l *Limiter) Wait(ctx context.Context, claims ...Claim) (d Decision, err error) {
	ctx = orBackground(ctx)
	if err = ctx.Err(); err != nil {
		return d, err
	}
	c := &receipt{limiter: l, sleeps: true}
	if err = l.take(ctx, c, claims); err != nil {
		return d, err
	}
	if c.view(&d); !d.Allowed {
		return d, nil
	}
	err = l.sleep(ctx, d.Wait)
	if err == nil { // also if there was nothing to wait for
		err = ctx.Err()
	}
	if err != nil {
		_ = c.settle(ctx, "", 0) // what cannot be given back stays charged
		return Decision{}, err
	}
	return d, nil
}

// await sleeps until the request of c, which was decided, may go on. If ctx ends first, all that it was
// charged is given back.
func (l *Limiter) await(ctx context.Context, c *receipt) error {
	err := l.sleep(ctx, c.wait())
	if err != nil {
		_ = c.settle(ctx, "", 0)
		return prefix(&cutShort{err})
	}
	return nil
}

// sleep waits for d, or until ctx ends. It returns at once if ctx would end before. If d is not 0, the request has entered.
func (l *Limiter) sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	defer l.waiting.Add(-1)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// enter counts a request as one that waits, unless too many do.
func (l *Limiter) enter() bool {
	if l.waiting.Add(1) <= l.maxWaiting {
		return true
	}
	l.waiting.Add(-1)
	return false
}

// decideToWait is decide for a request that sleeps until its turn. If too many wait, it is decided as if it must not.
func (l *Limiter) decideToWait(ctx context.Context, c *receipt, claims []Claim) (took time.Duration, err error) {
	if l.waiting.Load() < l.maxWaiting {
		took, err = l.decideOnce(ctx, c, claims)
		if err != nil || c.wait() == 0 || l.enter() {
			return took, err
		}
		if some := c.unsettled("", 0); len(some) > 0 { // others were faster
			_, _ = c.store().settle(ctx, some)
		}
		c.forget()
	}
	more, err := l.decideNow(ctx, c, claims)
	return took + more, err
}

// decideNow is decideOnce for a request that fits now or not at all. The rules of its claims still say that they may
// wait: what they are charged is given back as if they had.
func (l *Limiter) decideNow(ctx context.Context, c *receipt, claims []Claim) (took time.Duration, err error) {
	for i := range claims {
		if claims[i].open = false; !claims[i].DryRun {
			claims[i].MaxWait = 0
		}
	}
	took, err = l.decideOnce(ctx, c, claims)
	for i := range claims {
		claims[i].MaxWait = claims[i].rule.MaxWait
	}
	return took, err
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

// wait returns how long the request has to wait from the decision on.
func (c *receipt) wait() (longest time.Duration) {
	if !c.allowed {
		return 0
	}
	results := c.results()
	for i := range results {
		if r := &results[i]; !r.DryRun {
			longest = max(longest, r.Wait)
		}
	}
	return longest
}

// cutShort is the error of a request whose context ended while it waited.
type cutShort struct{ err error }

func (e *cutShort) Error() string {
	return fmt.Sprintf("the request did not wait for its turn: %v", e.err)
}

func (e *cutShort) Unwrap() []error { return []error{ErrUnavailable, e.err} }
