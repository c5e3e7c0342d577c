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

// decide has the store decide the claims of c, within the deadline, and falls back on the failure modes of their rules.
func (l *Limiter) decide(ctx context.Context, c *charge) error {
	if len(c.claims) == 0 {
		c.allowed = true
		return nil
	}
	err := l.store.decide(ctx, c)
	if err != nil && !errors.Is(err, ErrInvalid) {
		err = l.tolerate(ctx, c, unavailable(err))
	}
	if len(l.observers) > 0 && !c.peek {
		l.observe(ctx, c, err)
	}
	return err
}

// tolerate decides without the store: any enforced FailClosed claim refuses all, FailLocal claims are decided together in the
// fallback, others give no results. The store may still be at work on what c holds, so the fallback gets claims and
// results of its own.
func (l *Limiter) tolerate(ctx context.Context, c *charge, cause error) error {
	var local []Claim
	for _, claim := range c.claims {
		switch mode := l.modeOf(claim.Rule); {
		case mode == FailClosed && !claim.DryRun:
			return cause
		case mode == FailLocal:
			local = append(local, claim)
		}
	}
	c.degraded = cause
	c.claims = local
	if len(local) == 0 {
		c.settle(time.Time{}, nil)
		return nil
	}
	at, results, err := l.fallback.take(ctx, local, make([]Result, 0, countLimits(local)))
	if err != nil {
		return fmt.Errorf("%w; fallback: %w", cause, err)
	}
	c.settle(at, results)
	return nil
}

func (l *Limiter) modeOf(rule string) FailureMode {
	if r := l.byName[rule]; r != nil {
		return r.OnFailure
	}
	return FailLocal
}

// decide has the store behind k decide the claims of c.
func (k *link) decide(ctx context.Context, c *charge) error {
	at, results, err := k.take(ctx, c.claims, c.room())
	if err == nil {
		c.settle(at, results)
	}
	return err
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
