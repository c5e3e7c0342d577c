package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Settle sets the final cost of d under a rule of l; an empty rule means all rules of d. If the final cost is lower,
// the difference becomes available again, as far as it still counts. If it is higher, the difference is charged now,
// even if it does not fit. If the cost was held, Settle releases the hold and charges the final cost now. If the hold
// has already ended, it was charged at its end, and Settle corrects that charge. Each rule of a decision can be settled
// once; Settle ignores a rule that was charged nothing.
//
// The error wraps ErrInvalid if the cost is negative or neither d nor l has the rule, and ErrUnavailable if the store
// is down. If it returns an error, the charge stays.
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
	case rule != "" && rules.named(rule) == nil && !d.has(rule):
		return rules.noRule(rule)
	}
	return nil
}

// Refund gives back what l charged for d, as far as it still counts, once. It is Settle of all rules of d at 0. Windows
// and logs give back all that still counts. A token bucket does so if nothing else has been charged to it since.
// Otherwise it gives back only the part that cannot have drained, which may be less, because once other charges are in
// the bucket, nobody knows whose charge has drained. A denied decision was charged nothing.
func (l *Limiter) Refund(ctx context.Context, d Decision) error { return l.Settle(ctx, d, "", 0) }

// settle settles the claims of a rule at a cost. An empty rule means all rules.
func (c *receipt) settle(ctx context.Context, rule string, cost int) error {
	var charged, held []Settlement
	heldCost := 0
	for _, s := range c.unsettled(rule, cost) {
		if s.Held {
			held = append(held, s)
			heldCost += max(s.Cost, 1)
		} else {
			charged = append(charged, s)
		}
	}
	var errs [2]error
	if len(charged) > 0 {
		_, err := c.store().settle(ctx, charged)
		errs[0] = unavailable(err)
	}
	if len(held) > 0 {
		errs[1] = c.settleHeld(ctx, held, ending{outcome: Outcome{Cost: heldCost}})
	}
	return errors.Join(errs[:]...)
}

// Renew extends the holds of d by another minute, unless they have been settled or have ended. A hold ends 60 to 66
// seconds after it was made or last renewed. Adapters renew the holds of requests in flight. The error wraps
// ErrUnavailable if the store is down; you can then try again.
func (l *Limiter) Renew(ctx context.Context, d Decision) error {
	if _, err := l.current(); err != nil {
		return prefix(err)
	}
	var errs []error
	for _, c := range d.receipts() {
		if c.limiter == l {
			errs = append(errs, c.renew(orBackground(ctx)))
		}
	}
	return prefix(errors.Join(errs...))
}

// maxBan is the longest ban.
const maxBan = maxPeriod

// Ban denies all requests of a key under a rule of l for the duration d, which is more than 0 and at most 10 years of
// 365 days. It does not shorten a longer ban that is already active. Reset lifts a ban. Ban bans the key in the store
// and in the fallback; if one of them is down, the other still bans the key. Ban returns the same errors as Reset.
func (l *Limiter) Ban(ctx context.Context, rule, key string, d time.Duration) error {
	rule, err := l.named("ban", rule, key)
	if err == nil && (d <= 0 || d > maxBan) {
		err = within("ban", invalid("duration must be more than 0 and at most %v, got %v", maxBan, d))
	}
	if err != nil {
		return prefix(err)
	}
	ctx = orBackground(ctx)
	ban := []Settlement{{Rule: rule, Key: key, Ban: d}}
	_, err = l.store.settle(ctx, ban)
	_, local := l.fallback.settle(ctx, ban)
	return prefix(unavailable(errors.Join(err, local)))
}

// named returns the name of a rule of l. It returns an error that contains verb if l has no such rule or key is empty.
func (l *Limiter) named(verb, rule, key string) (string, error) {
	rules, err := l.current()
	rule = ruleName(rule)
	switch {
	case err != nil:
		return "", err
	case rules.named(rule) == nil:
		return "", within(verb, rules.noRule(rule))
	case key == "":
		return "", within(fmt.Sprintf("%s of rule %q", verb, rule), ErrNoKey)
	}
	return rule, nil
}

// Reset forgets what a key has used under a rule of l, including under its tiers, and lifts bans. It resets the store and
// the fallback, which may know what was charged while the store was down. The error wraps ErrInvalid if l has no such rule,
// ErrNoKey if the key is empty, and ErrUnavailable if either store is down. For rules that l does not have, use
// Store.Reset.
func (l *Limiter) Reset(ctx context.Context, rule, key string) error {
	rule, err := l.named("reset", rule, key)
	if err != nil {
		return prefix(err)
	}
	ctx = orBackground(ctx)
	pairs := []Pair{{rule, key}}
	err = errors.Join(l.store.reset(ctx, pairs), l.fallback.reset(ctx, pairs))
	return prefix(unavailable(err))
}

func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
