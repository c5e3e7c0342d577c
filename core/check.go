package core

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"time"
)

// Check charges r under every rule that applies to it, and returns whether r is admitted. It writes no response.
//
// Each rule of l charges a request once. If the context of r carries decisions of l, their rules are not charged again,
// and Check returns these decisions, joined with its own about the rules that did not apply before and do now. So if a
// server routes a request a second time with the same context, only the rules of the new route are decided. A denied
// request stays denied and is not charged again. To charge each part of a batch under all rules, give the parts a
// context that does not extend the batch's context.
//
// If Check returns an error, r must not be served. The error wraps ErrNoKey if r has no key, ErrBadKey if the key is
// ambiguous, ErrUnavailable if the store is down and a rule fails closed, and ErrInvalid if a cost, a tier or a key is
// invalid. Otherwise it wraps the error of a rule's callback.
func (l *Limiter) Check(r *http.Request) (Decision, error) { return l.checkOrPeek(r, deciding) }

// Peek returns what Check would return for r, but charges nothing and calls no observer.
func (l *Limiter) Peek(r *http.Request) (Decision, error) { return l.checkOrPeek(r, peeking) }

var errNoRequest = invalid("the request is nil")

// checkOrPeek decides a request for a caller that is not an adapter. Callbacks get a copy of the request, in whose
// context RoutePattern records an error.
func (l *Limiter) checkOrPeek(r *http.Request, s stage) (Decision, error) {
	if r == nil {
		return Decision{}, prefix(errNoRequest)
	}
	own := new(guarded)
	own.copyOf(r, r.Context(), l, nil)
	own.receipt.stage = s
	defer own.restore(r)
	if err := l.check(r, own); err != nil {
		return Decision{}, err
	}
	return own.ofLimiter(), nil
}

// check decides the rules that apply to a request, except those that l has decided for it before. Callbacks get the
// copy in own; observers get r.
func (l *Limiter) check(r *http.Request, own *guarded) error {
	rules, err := l.current()
	if err != nil {
		return prefix(err)
	}
	c := &own.receipt
	var earlier [2]*receipt
	before := own.before().receiptsOf(l, earlier[:0])
	if slices.ContainsFunc(before, (*receipt).denies) {
		return nil
	}
	var room [2]Claim
	var took time.Duration
	claims, err := l.claim(room[:0], rules, c, &own.request, before)
	if err == nil {
		took, err = l.decide(r.Context(), r, c, claims)
	}
	if err != nil || len(l.observers) > 0 {
		err = l.observe(r.Context(), r, c, claims, took, err)
	}
	return err
}

// claim appends to dst a claim for every rule that applies to r and was not decided before. A request to skip gets none.
// If a callback fails, the last claim is the failed rule's. A callback that panics is an error: it must neither admit
// the request nor take the server down.
func (l *Limiter) claim(dst []Claim, rules *ruleset, c *receipt, r *http.Request, before []*receipt) (claims []Claim, err error) {
	claims = dst
	var rule *activeRule
	defer func() {
		if v := recover(); v != nil {
			err = &callbackPanic{v, debug.Stack()}
		}
		if err != nil {
			err = within(rule.errorPlace(), err)
		}
	}()
	skipped, err := l.skip(c, r)
	if skipped || err != nil {
		return claims, err
	}
	var room [8]int
	for _, i := range rules.routes.Match(r, room[:0]) {
		rule = &rules.rules[i]
		if slices.ContainsFunc(before, func(c *receipt) bool { return c.decides(rule.Name) }) {
			continue
		}
		n := len(claims)
		claims = append(claims, rule.claim)
		claims[n].Peek = c.stage == peeking
		applies, err := rule.ask(r, &claims[n])
		if unknown := c.routeError(); unknown != nil {
			err = unknown
		}
		if err != nil {
			return claims, err
		}
		if !applies {
			claims = claims[:n]
			continue
		}
		l.noteProxy(r, &claims[n])
	}
	return claims, nil
}

// skip reports whether r is a request to skip.
func (l *Limiter) skip(c *receipt, r *http.Request) (skipped bool, err error) {
	for i := 0; i < len(l.skips) && !skipped && err == nil; i++ {
		skipped = l.skips[i](r)
		err = c.routeError()
	}
	return skipped, err
}

// errorPlace returns the prefix of a callback's error: the rule, or "skip" if rule is nil.
func (rule *activeRule) errorPlace() string {
	if rule == nil {
		return "skip"
	}
	return rule.place()
}

// ask sets the fields of c, a claim of rule, by calling the rule's callbacks for r. It reports false if the rule does
// not apply.
func (rule *activeRule) ask(r *http.Request, c *Claim) (applies bool, err error) {
	if rule.Match != nil && !rule.Match(r) {
		return false, nil
	}
	if rule.Cost != nil {
		if c.Cost = rule.Cost(r); c.Cost < 0 {
			return true, invalid("cost must not be negative, got %d", c.Cost)
		}
		if c.Cost == 0 {
			return false, nil
		}
	}
	if err := rule.identify(r, c); err != nil {
		return true, err
	}
	c.hold(rule)
	return true, nil
}

// identify sets the key of c, a claim of rule for r, and the limits that replace the rule's own, if any.
func (rule *activeRule) identify(r *http.Request, c *Claim) error {
	if rule.Key == nil {
		return invalid("key func is missing, so only Limiter.Take can use the rule; set Key to one such as keyfunc.RemoteIP")
	}
	key, err := rule.Key(r)
	if err == nil && key == "" {
		err = fmt.Errorf("the key func returned an empty key: %w", ErrNoKey)
	}
	if err != nil {
		return err
	}
	callback, limits := "override", []Limit(nil)
	if rule.Override != nil {
		limits = rule.Override(key)
		c.Overridden = len(limits) > 0
	}
	if len(limits) == 0 && rule.Tier != nil {
		callback, limits = "tier", rule.Tier(r)
	}
	if len(limits) > 0 {
		if err := c.use(limits, callback); err != nil {
			return err
		}
	}
	c.Key = key
	return nil
}

// hold sets c.Hold if rule has a CostAfter or one of the claim's limits is InFlight. The limits of c are valid.
func (c *Claim) hold(rule *activeRule) {
	final := rule.CostAfter != nil
	if final {
		c.Cost = clamp(c.Cost, c.Limits)
	}
	c.Hold = !c.Peek && (final || c.set.inFlight)
}
