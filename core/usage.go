package core

import (
	"errors"
	"net/http"
	"runtime/debug"
)

// Usage returns what the sender of r has left under every rule of l for which r has a key, whatever the Routes and the
// Match of the rule: a peek for a cost of 1, with the limits of Tier and Override, in one call of the store. It charges
// nothing and calls no observer. It leaves out rules that have no key for r, so the decision may have no results.
//
// It returns the same errors as Check. If the store is down, Decision.Degraded says so, as for Peek.
func (l *Limiter) Usage(r *http.Request) (Decision, error) {
	rules, err := l.current()
	if err != nil {
		return Decision{}, prefix(err)
	}
	own := new(guarded)
	own.copyOf(r, r.Context(), l, nil)
	defer own.restore(r)
	c := &own.receipt
	c.stage = peeking
	var claims []Claim
	for i := range rules.rules {
		claim, ok, err := rules.rules[i].usage(&own.request, c)
		if err != nil {
			return Decision{}, prefix(within(rules.rules[i].place(), err))
		}
		if ok {
			claims = append(claims, claim)
		}
	}
	if _, err := l.decide(r.Context(), c, claims); err != nil {
		return Decision{}, prefix(err)
	}
	var d Decision
	c.view(&d)
	return d, nil
}

// usage returns a peek of rule for r. It reports false if r has no key, or one that only a route of r would have.
func (rule *activeRule) usage(r *http.Request, c *receipt) (claim Claim, ok bool, err error) {
	if rule.Key == nil {
		return claim, false, nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = &callbackPanic{v, debug.Stack()}
		}
	}()
	claim = rule.claim
	claim.Peek = true
	err = rule.identify(r, &claim)
	switch noRoute := c.routeError(); {
	case noRoute != nil:
		c.extra.route = nil
		return claim, false, nil
	case errors.Is(err, ErrNoKey):
		return claim, false, nil
	}
	return claim, err == nil, err
}
