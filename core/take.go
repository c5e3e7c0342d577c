package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/breaker"
)

// Take charges claims without a request, for jobs, logins or tokens. A claim without Limits uses the limits of its
// rule. A claim needs Limits if l has no rule of its name, or if that rule has a Tier: without a request, Take cannot
// know which tier applies. While the store is down, a claim follows the FailureMode of its rule, or FailLocal if l has
// no rule of its name. Take returns the same errors as Check.
func (l *Limiter) Take(ctx context.Context, claims ...Claim) (d Decision, err error) {
	c := &receipt{limiter: l}
	if err = l.take(orBackground(ctx), c, claims); err == nil {
		c.view(&d)
	}
	return d, err
}

// take is Take, with the decision in c.
func (l *Limiter) take(ctx context.Context, c *receipt, claims []Claim) error {
	rules, err := l.current()
	if err == nil && len(claims) == 0 {
		err = invalid("Take needs at least one claim")
	}
	if err != nil {
		return prefix(err)
	}
	var room [2]Claim
	own := slices.Grow(room[:0], len(claims))[:len(claims)]
	var took time.Duration
	if err = rules.complete(own, claims); err == nil {
		took, err = l.decide(ctx, c, own)
	}
	if err != nil || len(l.observers) > 0 {
		err = l.observe(ctx, nil, c, own, took, err)
	}
	return err
}

// decide decides claims and records them in c. It returns how long the store took.
func (l *Limiter) decide(ctx context.Context, c *receipt, claims []Claim) (took time.Duration, err error) {
	switch {
	case len(claims) == 0:
		c.allowed = true
		return 0, nil
	case c.sleeps && mayWait(claims):
		return l.decideToWait(ctx, c, claims)
	}
	return l.decideOnce(ctx, c, claims)
}

// decideOnce asks the store to decide claims, within the deadline. If the store fails or the breaker is open,
// the failure modes of the rules decide. An error about the claims themselves is not a failure of the store. decideOnce
// returns how long the store took.
func (l *Limiter) decideOnce(ctx context.Context, c *receipt, claims []Claim) (took time.Duration, err error) {
	results, took, err := l.store.take(ctx, claims, c.roomFor(claims))
	switch {
	case err == nil:
		c.record(claims, results)
	case !errors.Is(err, ErrInvalid):
		err = l.decideWithoutStore(ctx, c, claims, unavailable(err))
	}
	return took, err
}

// decideWithoutStore decides claims for c, which the store did not decide because of cause. If the store has failed,
// the failure modes of the rules decide: a FailClosed claim that is not a dry run fails the request, the fallback
// decides the FailLocal claims together, and all other claims get no results. If too many calls are in flight, the
// fallback decides all claims, whatever their modes: otherwise a client that floods the store would open the FailOpen
// rules to itself and close the FailClosed rules to everybody.
func (l *Limiter) decideWithoutStore(ctx context.Context, c *receipt, claims []Claim, cause error) error {
	overloaded := errors.Is(cause, breaker.ErrTooMany)
	if overloaded {
		l.store.overload.note(ctx, l.reporter.log(), cause)
	}
	var local []Claim
	for i := range claims {
		claim := &claims[i]
		switch mode := claim.rule.OnFailure; {
		case overloaded, mode == FailLocal:
			local = append(local, *claim)
		case mode == FailClosed && !claim.DryRun:
			return cause
		default:
			claim.open = true
		}
	}
	c.more().degraded = prefix(cause)
	var results []Result
	if len(local) > 0 {
		var err error
		if results, _, err = l.fallback.take(ctx, local, c.roomFor(local)); err != nil {
			return fmt.Errorf("%w; fallback: %w", cause, err)
		}
	}
	c.record(claims, results)
	return nil
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

// enter counts a request as one that waits, unless too many do.
func (l *Limiter) enter() bool {
	if l.waiting.Add(1) <= l.maxWaiting {
		return true
	}
	l.waiting.Add(-1)
	return false
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
