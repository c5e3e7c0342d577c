package core

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"time"
)

// Check charges r for every rule that applies to it and says whether it is admitted. It writes no response.
//
// Each rule of l charges a request once. If the context of r carries decisions of l, their rules are not charged again, and Check
// returns these decisions, joined with its own about the rules that did not apply before and do now. So where a server routes a
// request again, which keeps its context, the rules of the new route are decided. A denied request stays denied, and is charged
// nothing more. To charge the parts of a batch for all rules, give them a context that does not extend the context of the batch.
//
// An error means that r must not be served: it wraps ErrNoKey if r has no key, ErrUnavailable if the store is down and a
// rule fails closed, ErrInvalid if a cost, a tier or a key is at fault, or it is what a callback of a rule came up with.
func (l *Limiter) Check(r *http.Request) (Decision, error) { return l.checkOrPeek(r, deciding) }

// Peek returns what Check would say of r, but charges nothing and calls no observer.
func (l *Limiter) Peek(r *http.Request) (Decision, error) { return l.checkOrPeek(r, peeking) }

// checkOrPeek decides about a request that no adapter passes on. Callbacks get a copy of it, in whose context RoutePattern leaves
// an error.
func (l *Limiter) checkOrPeek(r *http.Request, s stage) (Decision, error) {
	own := new(guarded)
	own.copyOf(r, r.Context(), l, nil)
	own.receipt.stage = s
	defer own.restore(r)
	if err := l.check(r, own); err != nil {
		return Decision{}, err
	}
	return own.ofLimiter(), nil
}

// check decides the rules that apply to a request, except those that l has decided for it before. Callbacks get the copy in own,
// observers get r.
func (l *Limiter) check(r *http.Request, own *guarded) error {
	rules, err := l.current()
	if err != nil {
		return prefix(err)
	}
	c := &own.receipt
	c.rules = rules
	var earlier [2]*receipt
	before := own.before().receiptsOf(l, earlier[:0])
	if slices.ContainsFunc(before, (*receipt).denies) {
		return nil
	}
	var took time.Duration
	if err = l.claim(c, &own.request, before); err == nil {
		took, err = l.decide(r.Context(), c)
	}
	err = prefix(err)
	l.observe(r.Context(), r, c, took, err)
	return err
}

// claim makes the claims of c: what every rule that applies to r asks for, except the rules that were decided before; a request to
// skip asks for nothing. If a callback fails, the last claim belongs to its rule. A callback that panics is an error: it must neither
// admit the request nor take the server down.
func (l *Limiter) claim(c *receipt, r *http.Request, before []*receipt) (err error) {
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
		return err
	}
	c.claims = c.room.claims[:0]
	var room [8]int
	for _, i := range c.rules.routes.Match(r, room[:0]) {
		rule = &c.rules.rules[i]
		if slices.ContainsFunc(before, func(c *receipt) bool { return c.decides(rule.Name) }) {
			continue
		}
		n := len(c.claims)
		c.claims = append(c.claims, rule.claim)
		c.claims[n].Peek = c.stage == peeking
		applies, err := rule.ask(r, &c.claims[n])
		if unknown := c.routeError(); unknown != nil {
			err = unknown
		}
		if err != nil {
			return err
		}
		if !applies {
			c.claims = c.claims[:n]
			continue
		}
		l.noteProxy(r, &c.claims[n])
	}
	return nil
}

// ask sets what c, a claim of rule, asks for on r, as the callbacks of rule say. It reports false if the rule does not apply.
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

// identify sets the key of c, a claim of rule on r, and the limits that apply to it instead of the rule's.
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

// use sets the limits of c to what a callback returned.
func (c *Claim) use(limits []Limit, callback string) error {
	set := limitSetOf(limits)
	c.Limits, c.set = set.limits, set
	if set.err == nil && c.MaxWait > 0 && !set.waits {
		return within(callback, limitsCanWait(c.MaxWait, limits))
	}
	return within(callback, set.err)
}

// errorPlace says which callback an error is about: one of rule or, if that is nil, a skip.
func (rule *activeRule) errorPlace() string {
	if rule == nil {
		return "skip"
	}
	return rule.place()
}

// skip reports whether r is a request to skip.
func (l *Limiter) skip(c *receipt, r *http.Request) (skipped bool, err error) {
	for i := 0; i < len(l.skips) && !skipped && err == nil; i++ {
		skipped = l.skips[i](r)
		err = c.routeError()
	}
	return skipped, err
}
