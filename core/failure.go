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

	// FailClosed serves no request: Check returns an error that wraps ErrUnavailable.
	FailClosed
)

// decideWithoutStore decides claims for c, which the store did not decide because of cause. If the store has failed,
// the failure modes of the rules decide: a FailClosed claim that is not a dry run fails the request, the fallback
// decides the FailLocal claims together, and all other claims get no results. If too many calls are in flight, the
// fallback decides all claims, whatever their modes: otherwise a client that floods the store would open the FailOpen
// rules to itself and close the FailClosed rules to everybody.
func (l *Limiter) decideWithoutStore(ctx context.Context, c *receipt, claims []Claim, cause error) error {
	overloaded := errors.Is(cause, breaker.ErrTooMany)
	if overloaded {
		l.overloaded(ctx, cause)
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

// unavailable wraps an error of a store in ErrUnavailable, unless the claims are at fault.
func unavailable(err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
