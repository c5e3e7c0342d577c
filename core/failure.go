package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A FailureMode says what a rule does while the store is down. Only faults of the store lead to it; a missing key, a bad
// cost or a client that hung up never do.
type FailureMode uint8

const (
	// FailLocal enforces the same limits from this process's memory.
	FailLocal FailureMode = iota

	// FailOpen admits.
	FailOpen

	// FailClosed refuses: the decision is an error that wraps ErrUnavailable.
	FailClosed
)

// decide has the store decide claims, within the deadline, and falls back on the failure modes of their rules.
// It returns how long the store took.
func (l *Limiter) decide(ctx context.Context, c *charge, claims []Claim) (time.Duration, error) {
	if len(claims) == 0 {
		c.allowed = true
		return 0, nil
	}
	results, took, err := l.store.take(ctx, claims, c.dst(claims), len(l.observers) > 0)
	switch {
	case err == nil:
		c.note(claims, results)
	case !errors.Is(err, ErrInvalid):
		err = l.tolerate(ctx, c, claims, unavailable(err))
	}
	return took, err
}

// tolerate decides without the store: any enforced FailClosed claim refuses all, FailLocal claims are decided together in the
// fallback, others give no results.
func (l *Limiter) tolerate(ctx context.Context, c *charge, claims []Claim, cause error) error {
	var local []Claim
	for _, claim := range claims {
		switch mode := l.modeOf(claim.Rule); {
		case mode == FailClosed && !claim.DryRun:
			return cause
		case mode == FailLocal:
			local = append(local, claim)
		}
	}
	c.rule, c.rest = nil, &rest{degraded: cause}
	if len(local) == 0 {
		c.allowed = true
		return nil
	}
	results, _, err := l.fallback.take(ctx, local, c.dst(local), false)
	if err != nil {
		return fmt.Errorf("%w; fallback: %w", cause, err)
	}
	c.note(local, results)
	return nil
}

func (l *Limiter) modeOf(rule string) FailureMode {
	if r := l.rules.Load().byName[rule]; r != nil {
		return r.OnFailure
	}
	return FailLocal
}

// reset resets the fallback as well: it may hold what was charged while the store was down.
func (l *Limiter) reset(ctx context.Context, c Claim) error {
	err := l.store.reset(ctx, []Claim{c})
	return unavailable(errors.Join(err, l.fallback.reset(ctx, []Claim{c})))
}

func unavailable(err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
