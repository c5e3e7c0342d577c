package core

import (
	"context"
	"errors"
	"fmt"
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
func (l *Limiter) decide(ctx context.Context, c *charge) (Decision, error) {
	if len(c.claims) == 0 {
		return Decision{Allowed: true, charges: c.self[:]}, nil
	}
	d, err := l.store.decide(ctx, c)
	if err != nil && !errors.Is(err, ErrInvalid) {
		d, err = l.tolerate(ctx, c, unavailable(err))
	}
	if !c.peek {
		l.observe(ctx, d, err)
	}
	return d, err
}

// tolerate decides without the store: any enforced FailClosed claim refuses all, FailLocal claims are decided together in the
// fallback, others give no results. The store may still be at work on c, so the fallback gets a charge of its own.
func (l *Limiter) tolerate(ctx context.Context, c *charge, cause error) (Decision, error) {
	local := l.newCharge()
	local.peek = c.peek
	for _, claim := range c.claims {
		switch mode := l.modeOf(claim.Rule); {
		case mode == FailClosed && !claim.DryRun:
			return Decision{}, cause
		case mode == FailLocal:
			local.claims = append(local.claims, claim)
		}
	}
	d := Decision{Allowed: true, charges: local.self[:]}
	if len(local.claims) > 0 {
		var err error
		if d, err = l.fallback.decide(ctx, local); err != nil {
			return Decision{}, fmt.Errorf("%w; fallback: %w", cause, err)
		}
	}
	d.Degraded = cause
	return d, nil
}

func (l *Limiter) modeOf(rule string) FailureMode {
	if r := l.byName[rule]; r != nil {
		return r.OnFailure
	}
	return FailLocal
}

// decide has the store behind k decide the claims of c.
func (k *link) decide(ctx context.Context, c *charge) (Decision, error) {
	at, results, err := k.take(ctx, c.claims, c.results[:0])
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Allowed: true, At: at, Results: results, charges: c.self[:]}
	for i := range results {
		d.Allowed = d.Allowed && (results[i].Allowed || results[i].DryRun)
	}
	c.link, c.at = k, at
	c.keepCharged(d)
	return d, nil
}

// refund gives back what c holds, to the store that charged it.
func (l *Limiter) refund(ctx context.Context, c *charge) error {
	return unavailable(c.link.refund(ctx, c.claims, c.at))
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
