package core

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/spillgate/spillgate/internal/usage"
)

// Usage returns what the sender of r has left under every rule of l for which r has a key, whatever the Routes and the
// Match of the rule: a peek for a cost of 1, with the limits of Tier and Override, in one call of the store for each 64
// rules. It charges nothing and calls no observer. It leaves out rules that have no key for r, or whose key contains a
// route that is not known here, so the decision may have no results.
//
// It returns the same errors as Check. If the store is down, Decision.Degraded says so, as for Peek.
func (l *Limiter) Usage(r *http.Request) (Decision, error) {
	rules, err := l.current()
	if err == nil && r == nil {
		err = errNoRequest
	}
	if err != nil {
		return Decision{}, prefix(err)
	}
	wanted, err := rules.wanted(usage.Rules(r.Context()))
	if err != nil {
		l.reporter.failed(r.Context(), usageFailed, nil, err)
		return Decision{}, prefix(err)
	}
	g := newGuard(l, r.Context(), r, nil, false)
	defer g.own.restore(r)
	var claims []asked
	for _, rule := range wanted {
		a := asked{rule: rule, set: rule.set, cost: 1, dryRun: rule.DryRun, peek: true}
		ok, err := a.usage(&g.own.request, &g.own.receipt)
		if err != nil {
			return Decision{}, prefix(inRule(rule.Name, err))
		}
		if ok {
			claims = append(claims, a)
		}
	}
	return l.peekAt(r.Context(), claims)
}

// UsageOf returns what a key has left under one rule of l: a peek for a cost of 1, which charges nothing and calls no
// observer. It is for a support console: what a customer has left under a rule, without a request of the customer.
//
// Pass the limits that apply to the key, or none, as for Grant. UsageOf returns the same errors as Grant. If the store is
// down, Decision.Degraded says so, as for Peek.
func (l *Limiter) UsageOf(ctx context.Context, rule, key string, limits ...Limit) (Decision, error) {
	own, err := l.ofKey("usage", rule, key, limits)
	if err != nil {
		return Decision{}, prefix(err)
	}
	return l.peekAt(orBackground(ctx), []asked{own})
}

// peekAt decides claims that are peeks, in as many calls as they need.
func (l *Limiter) peekAt(ctx context.Context, claims []asked) (Decision, error) {
	var receipts []*receipt
	for some := range slices.Chunk(claims, maxClaims) {
		c := &receipt{limiter: l, stage: peeking}
		for _, a := range some {
			*c.add() = a
		}
		if _, err := l.decideOnce(ctx, c, maxMaxWait); err != nil {
			return Decision{}, prefix(err)
		}
		receipts = append(receipts, c)
	}
	if len(receipts) == 0 {
		receipts = []*receipt{{limiter: l, stage: peeking, allowed: true}}
	}
	return decisionOf(receipts), nil
}

// wanted returns the rules with these names, or all rules if there are no names.
func (s *ruleset) wanted(names []string) (rules []*activeRule, err error) {
	for _, name := range names {
		rule := s.byName[ruleName(name)]
		if rule == nil {
			return nil, s.noRule(name)
		}
		if !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	for i := range s.rules {
		if len(names) == 0 {
			rules = append(rules, &s.rules[i])
		}
	}
	return rules, nil
}

// usage identifies the sender of r for a. It reports false if r has no key, or one that only a route of r would have. c is
// the receipt that r carries.
func (a *asked) usage(r *http.Request, c *receipt) (ok bool, err error) {
	if a.rule.Key == nil {
		return false, nil
	}
	defer recovered(&err)
	if err = a.identify(r); c.extra != nil && c.extra.route != nil {
		c.extra.route, err = nil, ErrNoKey
	}
	if errors.Is(err, ErrNoKey) || errors.Is(err, errNoRouter) {
		return false, nil
	}
	return err == nil, err
}
