package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/breaker"
)

// Take charges claims without a request, for jobs, logins or tokens. A claim without Limits uses the limits of its
// rule. A claim needs Limits if l has no rule of its name, or if that rule has a Tier: without a request, Take cannot
// know which tier applies. While the store is down, a claim follows the FailureMode of its rule, or FailLocal if l has
// no rule of its name. Take returns the same errors as Check.
func (l *Limiter) Take(ctx context.Context, claims ...Claim) (Decision, error) {
	return l.take(ctx, new(taken), claims) // inlined, so that taken is on the stack of a caller that does not keep the decision
}

// taken is a receipt with room for its result.
type taken struct {
	receipt
	room [1]Result
}

// take is Take, recorded in t. It does not keep t: see receipt.
func (l *Limiter) take(ctx context.Context, t *taken, claims []Claim) (Decision, error) {
	ctx = orBackground(ctx)
	if l != nil && len(l.observers) > 0 {
		return l.takeObserved(ctx, new(taken), claims) // observers may keep it
	}
	err := l.complete(&t.receipt, claims)
	if err == nil {
		_, err = l.decideOnce(ctx, &t.receipt, maxMaxWait)
	}
	if err != nil {
		return Decision{}, prefix(err)
	}
	return t.view(&t.room), nil
}

// takeObserved is take for observers, and for Wait, which sleeps until the turn of the request.
func (l *Limiter) takeObserved(ctx context.Context, t *taken, claims []Claim) (Decision, error) {
	var took time.Duration
	err := l.complete(&t.receipt, claims)
	if err == nil {
		took, err = l.decide(ctx, nil, &t.receipt)
	}
	if !t.isEmpty() && len(l.observers) > 0 {
		err = l.observe(ctx, nil, &t.receipt, &t.room, took, err)
	}
	if err != nil {
		return Decision{}, prefix(err)
	}
	return t.view(&t.room), nil
}

// complete makes c ask for what claims say.
func (l *Limiter) complete(c *receipt, claims []Claim) error {
	rules, err := l.current()
	if err == nil && len(claims) == 0 {
		err = invalid("Take needs at least one claim")
	}
	if err != nil {
		return err
	}
	c.limiter = l
	return rules.complete(c, claims)
}

// decideOnce asks the store to decide the claims of c, within the deadline. No request waits longer than most for its turn.
// If the store fails or the breaker is open, the failure modes of the rules decide. An error about the claims themselves is
// not a failure of the store. decideOnce returns how long the store took.
func (l *Limiter) decideOnce(ctx context.Context, c *receipt, most time.Duration) (took time.Duration, err error) {
	if n := len(c.claims()); n > maxClaims {
		return 0, tooMany(n)
	}
	took, err = l.store.take(ctx, c, byStore, most)
	switch {
	case err == nil:
		c.record()
	case !errors.Is(err, ErrInvalid):
		err = l.decideWithoutStore(ctx, c, most, unavailable(err))
	}
	return took, err
}

// decideWithoutStore decides the claims of c, which the store did not decide because of cause. A denial that the store
// remembers stands. Otherwise, if the store is down, the failure modes of the rules decide: a FailClosed claim that is not
// a dry run fails the request, the fallback decides the FailLocal claims together, and FailOpen claims get no results. As
// long as the breaker has not opened, the fallback decides FailOpen claims too: one lost reply does not lift a limit. If
// too many calls are in flight, the fallback decides all claims, whatever their modes: otherwise a client that floods the
// store would open the FailOpen rules to itself and close the FailClosed rules to everybody.
func (l *Limiter) decideWithoutStore(ctx context.Context, c *receipt, most time.Duration, cause error) error {
	overloaded := errors.Is(cause, breaker.ErrTooMany)
	if overloaded {
		l.store.overload.note(ctx, l.reporter.log(), cause)
	}
	if l.store.keepKnownDenials(c, most) {
		c.more().degraded = prefix(cause)
		c.record()
		return nil
	}
	down, _ := l.store.breaker.Down()
	local, claims := false, c.claims()
	for i := range claims {
		a := &claims[i]
		switch mode := a.rule.OnFailure; {
		case a.by == byNobody:
		case overloaded, mode == FailLocal, mode == FailOpen && !down:
			a.by, local = byFallback, true
		case mode == FailClosed && !a.dryRun:
			return cause
		default:
			a.by = byNobody
		}
	}
	c.more().degraded = prefix(cause)
	if local {
		if _, err := l.fallback.take(ctx, c, byFallback, most); err != nil {
			return fmt.Errorf("%w; fallback: %w", cause, err)
		}
	}
	c.record()
	return nil
}
