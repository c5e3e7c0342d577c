package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/spillgate/spillgate/internal/breaker"
)

// A FailureMode says what a rule does while the store is down. It applies only to faults of the store, never to a
// missing key, a bad cost or a client that disconnected. If too many calls of a healthy store are in flight, all rules
// do what FailLocal does.
type FailureMode uint8

const (
	// FailLocal enforces the same limits from this process's memory.
	FailLocal FailureMode = iota

	// FailOpen admits the request.
	FailOpen

	// FailClosed denies the request: Check returns an error that wraps ErrUnavailable.
	FailClosed
)

// decideWithoutStore decides the claims of c, which the store did not decide because of cause. If the store has failed,
// the failure modes of the rules decide: a FailClosed claim that is not a dry run fails the request, the fallback
// decides the FailLocal claims together, and all other claims get no results. If too many calls are in flight, the
// fallback decides all claims, whatever their modes: otherwise a client that floods the store would open the FailOpen
// rules to itself and close the FailClosed rules to everybody.
func (l *Limiter) decideWithoutStore(ctx context.Context, c *receipt, cause error) error {
	overloaded := errors.Is(cause, breaker.ErrTooMany)
	if overloaded {
		l.overloaded(ctx, cause)
	}
	var local []Claim
	for i := range c.claims {
		claim := &c.claims[i]
		switch mode := c.rules.modeOf(claim.Rule); {
		case overloaded, mode == FailLocal:
			local = append(local, *claim)
		case mode == FailClosed && !claim.DryRun:
			return cause
		default:
			claim.open = true
		}
	}
	c.more().degraded = prefix(cause)
	if len(local) == 0 {
		c.allowed = true
		return nil
	}
	results, _, err := l.fallback.take(ctx, local, c.roomFor(local))
	if err != nil {
		return fmt.Errorf("%w; fallback: %w", cause, err)
	}
	c.record(results)
	return nil
}

// modeOf returns the failure mode of a rule, or FailLocal if the limiter has no such rule, which a claim of Take may
// name.
func (s *ruleset) modeOf(rule string) FailureMode {
	if r := s.named(rule); r != nil {
		return r.OnFailure
	}
	return FailLocal
}

// unavailable wraps an error of a store in ErrUnavailable, unless the claims are at fault.
func unavailable(err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
