package core

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

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

// Grant gives a key n more requests under a rule of l now, on top of its limits, as when support adds to a customer's
// plan. A negative n takes requests away. In a fixed window, the requests last until the window ends; in a sliding
// window or log, for one period. Each grant ends by itself: a later one does not prolong it. A key keeps up to 60 grants of
// a limit apart; of more, two are merged so that the key never gets more. A grant raises the limit of a window or log, and
// does not lower what was used. A token bucket gets back at most what was used. Grant does not lift a ban and does not
// change limits of requests in flight. A grant does not change what a refund gives back, except that after requests were
// taken away from a token bucket, a refund of an older charge gives back only the part that cannot have drained.
//
// Pass the limits that apply to the key. If you pass none, Grant uses the limits that the rule's Override returns for
// the key, if any, or else the rule's own limits. A rule with a Tier needs limits, as in Take. Grant changes the store,
// not the fallback. If the store is down, Grant changes nothing. Grant returns the same errors as Reset, and ErrInvalid
// if n is 0.
func (l *Limiter) Grant(ctx context.Context, rule, key string, n int, limits ...Limit) error {
	rule, err := l.named("grant", rule, key)
	if err != nil {
		return prefix(err)
	}
	rules, _ := l.current()
	var own Claim
	if err = rules.completeOne(&own, &Claim{Rule: rule, Key: key, Limits: limits, Peek: true}); err == nil && (n == 0 || n < -maxRate || n > maxRate) {
		err = invalid("requests must be between -%d and %d and not 0, got %d", maxRate, maxRate, n)
	}
	if err != nil {
		return prefix(within(fmt.Sprintf("grant of rule %q", rule), err))
	}
	given := []Settlement{{Rule: rule, Key: key, Limits: own.Limits, Grant: n, set: own.set}}
	if _, err = l.store.settle(orBackground(ctx), given); err != nil {
		return prefix(unavailable(err))
	}
	l.grants.add(Granted{Rule: rule, Key: key, Requests: n, At: time.Now()})
	return nil
}

// Grants returns the grants that l has made, for operators: package telemetry shows them.
func (l *Limiter) Grants() Grants {
	if _, err := l.current(); err != nil {
		return Grants{}
	}
	l.grants.mu.Lock()
	defer l.grants.mu.Unlock()
	last := slices.Clone(l.grants.last)
	slices.Reverse(last)
	return Grants{maps.Clone(l.grants.made), last}
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
