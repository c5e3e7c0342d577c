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

// decideWithoutStore decides claims by the failure modes of their rules: an enforced FailClosed claim refuses all, the
// FailLocal claims are decided together by the fallback, and all others give no results. Cause is why the store did not
// decide.
func (l *Limiter) decideWithoutStore(ctx context.Context, rules *ruleset, c *receipt, claims []Claim, cause error) error {
	var local []Claim
	e := &extra{degraded: prefix(cause)}
	for _, claim := range claims {
		switch mode := rules.modeOf(claim.Rule); {
		case mode == FailClosed && !claim.DryRun:
			return cause
		case mode == FailLocal:
			local = append(local, claim)
		default:
			e.open = append(e.open, claim.Rule)
		}
	}
	c.rule, c.extra = nil, e
	if len(local) == 0 {
		c.allowed = true
		return nil
	}
	results, _, err := l.fallback.take(ctx, local, c.room(local))
	if err != nil {
		return fmt.Errorf("%w; fallback: %w", cause, err)
	}
	c.record(rules, local, results)
	return nil
}

// modeOf returns the failure mode of a rule. Claims of Take may have a name that is that of no rule.
func (s *ruleset) modeOf(rule string) FailureMode {
	if r := s.named(rule); r != nil {
		return r.OnFailure
	}
	return FailLocal
}

// unavailable marks an error of a store, unless the claims are at fault.
func unavailable(err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
