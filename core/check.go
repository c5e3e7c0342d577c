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

// checkOrPeek decides r for a caller that is not an adapter, with a copy of r in whose context RoutePattern records an error.
func (l *Limiter) checkOrPeek(r *http.Request, s stage) (Decision, error) {
	if r == nil {
		return Decision{}, prefix(errNoRequest)
	}
	g := newGuard(l, r.Context(), r, nil, true)
	g.own.receipt.stage = s
	defer g.own.restore(r)
	if err := l.check(r, &g); err != nil {
		return Decision{}, err
	}
	return g.own.ofLimiter(g.room), nil
}

// check decides the rules that apply to r, except those that l has decided before. Callbacks get the copy in g, observers get r.
func (l *Limiter) check(r *http.Request, g *Guard) error {
	rules, err := l.current()
	if err != nil {
		return prefix(err)
	}
	c := &g.own.receipt
	var before []*receipt
	if c.nested {
		before = g.own.before().receiptsOf(l)
		if slices.ContainsFunc(before, func(c *receipt) bool { return !c.allowed }) {
			return nil
		}
	}
	var took time.Duration
	switch err = l.ask(rules, c, &g.own.request, before); {
	case err != nil && c.isEmpty():
		err = within("skip", err)
	case err != nil:
		claims := c.claims()
		err = inRule(claims[len(claims)-1].rule.Name, err) // the last one
	case len(c.claims()) == 0:
		c.allowed = true
	case rules.mayWait:
		took, err = l.decide(r.Context(), r, c)
	default:
		took, err = l.decideOnce(r.Context(), c, maxMaxWait)
	}
	if err != nil || len(l.observers) > 0 {
		err = l.observe(r.Context(), r, c, g.room, took, err)
	}
	return err
}

// ask makes c ask for what every rule says that applies to r and was not decided before. It asks for nothing if r is a
// request to skip. If a callback fails, the last claim is the failed rule's.
func (l *Limiter) ask(rules *ruleset, c *receipt, r *http.Request, before []*receipt) (err error) {
	defer recovered(&err)
	for _, skip := range l.skips {
		skipped := skip(r)
		if c.extra != nil {
			err = c.extra.route
		}
		if skipped || err != nil {
			return err
		}
	}
	for _, i := range rules.routes.Match(r, make([]int, 0, 8)) {
		rule := &rules.rules[i]
		done := func(c *receipt) bool { _, ok := c.keyOf(rule.Name); return ok }
		if len(before) > 0 && slices.ContainsFunc(before, done) {
			continue
		}
		a := c.add()
		a.rule, a.set, a.cost, a.dryRun, a.peek = rule, rule.set, 1, rule.DryRun, c.stage == peeking
		applies, err := a.fill(r)
		if c.extra != nil && c.extra.route != nil {
			err = c.extra.route
		}
		switch {
		case err != nil:
			return err
		case !applies:
			c.drop()
		case mayBeProxy(a.key, r.RemoteAddr):
			l.noteProxy(r, a)
		}
	}
	return nil
}

// fill sets the fields of a by calling the callbacks of its rule for r. It reports false if the rule does not apply.
func (a *asked) fill(r *http.Request) (applies bool, err error) {
	rule := a.rule
	if rule.Match != nil && !rule.Match(r) {
		return false, nil
	}
	if rule.Cost != nil {
		if a.cost = rule.Cost(r); a.cost < 0 {
			return true, invalid("cost must not be negative, got %d", a.cost)
		}
		if a.cost == 0 {
			return false, nil
		}
	}
	if err := a.identify(r); err != nil {
		return true, err
	}
	if rule.CostAfter != nil {
		a.cost = min(a.cost, a.set.smallest)
	}
	a.hold = !a.peek && (rule.CostAfter != nil || a.set.inFlight)
	return true, nil
}

// identify sets the key of a, and the limits that replace the rule's own, if any.
func (a *asked) identify(r *http.Request) error {
	rule := a.rule
	if rule.Key == nil {
		return invalid("key func is missing, so only Limiter.Take can use the rule; set Key to one such as keyfunc.RemoteIP")
	}
	key, err := rule.Key(r)
	if err == nil && key == "" {
		err = fmt.Errorf("the key func returned an empty key: %w", ErrNoKey)
	}
	if err == nil && (rule.Override != nil || rule.Tier != nil) {
		err = a.replaceLimits(r, key)
	}
	if err == nil {
		a.key = key
	}
	return err
}

// replaceLimits sets the limits of a to what the rule's Override returns for the key or, if that is none, its Tier for r,
// unless r is nil.
func (a *asked) replaceLimits(r *http.Request, key string) (err error) {
	defer recovered(&err)
	callback, limits := "override", []Limit(nil)
	if a.rule.Override != nil {
		limits = a.rule.Override(key)
		a.over = len(limits) > 0
	}
	if len(limits) == 0 && a.rule.Tier != nil && r != nil {
		callback, limits = "tier", a.rule.Tier(r)
	}
	if len(limits) == 0 {
		return nil
	}
	a.set = limitSetOf(limits)
	if err = a.set.err; err == nil {
		err = a.set.cannotWait(a.rule.MaxWait)
	}
	return within(callback, err)
}

// recovered makes a panic of a callback an error: it must neither admit the request nor take the server down. Defer it.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = &callbackPanic{invalid("a callback panicked: %v", v), debug.Stack()}
	}
}
