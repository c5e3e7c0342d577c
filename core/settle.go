package core

import (
	"context"
	"errors"
	"fmt"
)

// Settle replaces what d was charged by l for a rule by what it costs after all; an empty rule is all rules of d. If it
// costs less, the difference is available again as far as it still counts; if it costs more, the difference is charged
// now, even if it does not fit. Each rule of a decision is settled once; a rule that was charged nothing is not settled.
// The error wraps ErrInvalid if the cost is negative or neither d nor l knows the rule, or ErrUnavailable if the store is
// down; what was charged stays then.
func (l *Limiter) Settle(ctx context.Context, d Decision, rule string, cost int) error {
	err := l.validateSettle(&d, rule, cost)
	if err != nil {
		return prefix(within("settle", err))
	}
	var errs []error
	for _, c := range d.receipts() {
		if c.limiter == l {
			errs = append(errs, c.settle(orBackground(ctx), rule, cost))
		}
	}
	return prefix(errors.Join(errs...))
}

func (l *Limiter) validateSettle(d *Decision, rule string, cost int) error {
	rules, err := l.current()
	switch {
	case err != nil:
		return err
	case cost < 0:
		return invalid("cost must not be negative, got %d", cost)
	case rule != "" && rules.byName[rule] == nil && !d.has(rule):
		return invalid("there is no rule %q", rule)
	}
	return nil
}

// Refund gives back exactly what d was charged by l, once: what of it still counts is available again. A denied decision
// was charged nothing. Refund settles all rules of d at 0.
func (l *Limiter) Refund(ctx context.Context, d Decision) error { return l.Settle(ctx, d, "", 0) }

// settle settles the claims of a rule, or all if it is empty, at a cost.
func (c *receipt) settle(ctx context.Context, rule string, cost int) error {
	claims := c.unsettled(rule)
	if len(claims) == 0 {
		return nil
	}
	for i := range claims {
		claims[i].Final = cost
	}
	return unavailable(c.store().settle(ctx, claims))
}

// Reset forgets a key of a rule of l: all its limits, those of its tiers included. It resets the store and the fallback,
// which may know what was charged while the store was down. The error wraps ErrInvalid if l has no such rule, ErrNoKey if
// the key is empty, or ErrUnavailable if either store is down. Use Store.Reset for claims whose name is that of no rule.
func (l *Limiter) Reset(ctx context.Context, rule, key string) error {
	rules, err := l.current()
	rule = ruleName(rule)
	switch {
	case err != nil:
		return prefix(err)
	case rules.byName[rule] == nil:
		return prefix(invalid("reset: there is no rule %q", rule))
	case key == "":
		return prefix(within(fmt.Sprintf("reset of rule %q", rule), ErrNoKey))
	}
	ctx = orBackground(ctx)
	claims := []Claim{{Rule: rule, Key: key}}
	err = errors.Join(l.store.reset(ctx, claims), l.fallback.reset(ctx, claims))
	return prefix(unavailable(err))
}

func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
