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
		took, err = l.decide(ctx, nil, c, own)
	}
	if err != nil || len(l.observers) > 0 {
		err = l.observe(ctx, nil, c, own, took, err)
	}
	return err
}

// decideOnce asks the store to decide claims, within the deadline. If the store fails or the breaker is open,
// the failure modes of the rules decide. An error about the claims themselves is not a failure of the store. decideOnce
// returns how long the store took.
func (l *Limiter) decideOnce(ctx context.Context, c *receipt, claims []Claim) (took time.Duration, err error) {
	asked := withResults(claims)
	results, took, err := l.store.take(ctx, asked, c.roomFor(asked))
	switch {
	case err == nil:
		c.record(claims, results)
	case !errors.Is(err, ErrInvalid):
		err = l.decideWithoutStore(ctx, c, claims, unavailable(err))
	}
	return took, err
}

// decideWithoutStore decides claims for c, which the store did not decide because of cause. A denial that the store
// remembers stands. Otherwise, if the store is down, the failure modes of the rules decide: a FailClosed claim that is not
// a dry run fails the request, the fallback decides the FailLocal claims together, and FailOpen claims get no results. As
// long as the breaker has not opened, the fallback decides FailOpen claims too: one lost reply does not lift a limit. If
// too many calls are in flight, the fallback decides all claims, whatever their modes: otherwise a client that floods the
// store would open the FailOpen rules to itself and close the FailClosed rules to everybody.
func (l *Limiter) decideWithoutStore(ctx context.Context, c *receipt, claims []Claim, cause error) error {
	overloaded := errors.Is(cause, breaker.ErrTooMany)
	if overloaded {
		l.store.overload.note(ctx, l.reporter.log(), cause)
	}
	if results, denied := l.store.knownDenials(claims, c.roomFor(claims)); denied {
		c.more().degraded = prefix(cause)
		c.record(claims, results)
		return nil
	}
	down, _ := l.store.breaker.Down()
	var local []Claim
	for i := range claims {
		claim := &claims[i]
		switch mode := claim.rule.OnFailure; {
		case claim.open: // nothing was asked about it
		case overloaded, mode == FailLocal, mode == FailOpen && !down:
			claim.local = true
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

// withResults returns the claims that are not open.
func withResults(claims []Claim) []Claim {
	isOpen := func(c Claim) bool { return c.open }
	if !slices.ContainsFunc(claims, isOpen) {
		return claims
	}
	return slices.DeleteFunc(slices.Clone(claims), isOpen)
}
