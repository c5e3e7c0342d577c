package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// named returns the name of a rule of l. It returns an error that contains verb if l has no such rule or key is empty.
func (l *Limiter) named(verb, rule, key string) (string, error) {
	rules, err := l.current()
	rule = ruleName(rule)
	switch {
	case err != nil:
		return "", err
	case rules.byName[rule] == nil:
		return "", within(verb, rules.noRule(rule))
	case key == "":
		return "", within(fmt.Sprintf("%s of rule %q", verb, rule), ErrNoKey)
	}
	return rule, nil
}

// ofKey returns a peek of a key under a rule of l, by limits or else by the limits that apply without a request.
func (l *Limiter) ofKey(verb, rule, key string, limits []Limit) (a asked, err error) {
	if rule, err = l.named(verb, rule, key); err != nil {
		return a, err
	}
	err = l.rules.Load().completeOne(&a, &Claim{Rule: rule, Key: key, Limits: limits, Peek: true})
	return a, within(fmt.Sprintf("%s of rule %q", verb, rule), err)
}

// Ban denies all requests of a key under a rule of l for the duration d, rounded up to whole microseconds. d is more than
// 0 and at most 10 years of 365 days. Ban does not shorten a longer ban that is already active. Reset lifts a ban. Ban
// bans the key in the store and in the fallback; if one of them is down, the other still bans the key. Ban returns the
// same errors as Reset.
func (l *Limiter) Ban(ctx context.Context, rule, key string, d time.Duration) error {
	rule, err := l.named("ban", rule, key)
	if err == nil && (d <= 0 || d > maxPeriod) {
		err = within("ban", invalid("duration must be more than 0 and at most %v, got %v", maxPeriod, d))
	}
	if err != nil {
		return prefix(err)
	}
	ctx = orBackground(ctx)
	ban := []Settlement{{Rule: rule, Key: key, Ban: (d + time.Microsecond - 1).Truncate(time.Microsecond)}} // not shorter than d
	_, err = l.store.settle(ctx, ban)
	_, local := l.fallback.settle(ctx, ban)
	return prefix(unavailable(errors.Join(err, local)))
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
