package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Settle sets the final cost of d under a rule of l; an empty rule means all rules of d. If the final cost is lower, the
// difference becomes available again, as far as it still counts. If it is higher, the difference is charged now, even if it
// does not fit. If the cost was held, the hold is released and the final cost charged now; if the hold has already ended,
// Settle corrects the charge that its end made. Each rule of a decision is settled once, and a rule that was charged
// nothing is not settled.
//
// The error wraps ErrInvalid if the cost is negative or neither d nor l has the rule, and ErrUnavailable if the store is
// down. Then the charge stays.
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

// Refund gives back what d was charged by l and what still counts, once. It never gives back more than that. Windows and logs give
// back all of it. A token bucket does if nothing else was charged to it since; otherwise it gives back only what cannot have drained
// in the meantime, which may be less: how much of a charge has drained is not known once others are in the bucket. A denied
// decision was charged nothing. Refund settles all rules of d at 0.
func (l *Limiter) Refund(ctx context.Context, d Decision) error { return l.Settle(ctx, d, "", 0) }

// settle settles the claims of a rule, or all if it is empty, at a cost.
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

// Renew extends the holds of d by another minute, unless they have been settled or have ended. A hold ends 60 to 66 seconds
// after it was made or last renewed. Adapters renew the holds of requests in flight. The error wraps ErrUnavailable if the
// store is down; then you can try again.
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

// Ban denies all requests of a key under a rule of l for the duration d, which is more than 0 and at most 10 years of 365
// days. A longer ban that is already active stays. Reset lifts a ban. Ban applies to the store and to the fallback; if one
// of them is down, the ban still applies in the other. Ban returns the same errors as Reset.
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

// Grant gives a key of a rule of l n more requests now, on top of its limits: support adds to a plan. A negative n takes requests away.
// The requests last until the window ends, or for one period where a limit has none that begins and ends; a token bucket gets back at
// most what was used. A ban stays, and so do limits of requests in flight. What a refund gives back does not depend on grants.
//
// Pass the limits that apply to the key. Without limits, the rule's Override for the key applies, if any, or else the rule's own limits; a
// rule with a Tier needs limits, as in Take. Grant changes the store only: if the store is down, it changes nothing. Grant returns the same errors as Reset;
// an n of 0 is ErrInvalid.
func (l *Limiter) Grant(ctx context.Context, rule, key string, n int, limits ...Limit) error {
	rule, err := l.named("grant", rule, key)
	if err != nil {
		return prefix(err)
	}
	rules, _ := l.current()
	claim := Claim{Rule: rule, Key: key, Limits: limits, Peek: true}
	if err = rules.completeOne(&claim, rules.named(rule)); err == nil && (n == 0 || n < -maxRate || n > maxRate) {
		err = invalid("requests must be between -%d and %d and not 0, got %d", maxRate, maxRate, n)
	}
	if err != nil {
		return prefix(within(fmt.Sprintf("grant of rule %q", rule), err))
	}
	_, err = l.store.settle(orBackground(ctx), []Settlement{{Rule: rule, Key: key, Limits: claim.Limits, Grant: n, set: claim.set}})
	return prefix(unavailable(err))
}

// named returns the name of a rule of l. If there is none, or if key is empty, the error says what was to be done.
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
