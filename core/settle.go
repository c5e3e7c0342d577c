package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// Settle sets the final cost of d under a rule of l; an empty rule means all rules of d. If the final cost is lower,
// the difference becomes available again, as far as it still counts. If it is higher, the difference is charged now,
// even if it does not fit. If the cost was held, Settle releases the hold and charges the final cost now. If the hold
// has already ended, it was charged at its end, and Settle corrects that charge. Settle ignores a rule that was charged
// nothing or has been settled before, and returns nil.
//
// A token bucket counts requests × Period up to 2^53, in microseconds or, if its capacity does not fit then, in
// milliseconds or seconds. It forgets what is used beyond that: under 100,000 a day, more than 104,249 requests.
//
// The error wraps ErrInvalid if the cost is negative or neither d nor l has the rule, and ErrUnavailable if the store is
// down. Then the charge stays, unless only the store's answer was lost. After ErrUnavailable, a rule counts as settled.
func (l *Limiter) Settle(ctx context.Context, d Decision, rule string, cost int) error {
	rules, err := l.current()
	switch {
	case err != nil:
	case cost < 0:
		err = invalid("cost must not be negative, got %d", cost)
	case rule != "" && rules.byName[rule] == nil && !slices.ContainsFunc(d.Results, func(r Result) bool { return r.Rule == rule }):
		err = rules.noRule(rule)
	}
	if err != nil {
		return prefix(within("settle", err))
	}
	return l.eachOwn(&d, func(c *receipt) error { return c.settle(orBackground(ctx), rule, cost) })
}

// eachOwn calls f for each receipt of d that l made.
func (l *Limiter) eachOwn(d *Decision, f func(*receipt) error) error {
	var errs []error
	for _, c := range d.receipts() {
		if c.limiter == l {
			errs = append(errs, f(c))
		}
	}
	return prefix(errors.Join(errs...))
}

// Refund gives back what l charged for d, as far as it still counts, once. It is Settle of all rules of d at 0. Windows
// and logs give back all that still counts. A token bucket does so if nothing else has been charged to it since.
// Otherwise it gives back only the part that cannot have drained, which may be less, because once other charges are in
// the bucket, nobody knows whose charge has drained. A denied decision was charged nothing.
func (l *Limiter) Refund(ctx context.Context, d Decision) error { return l.Settle(ctx, d, "", 0) }

// settle settles the claims of a rule at a cost. An empty rule means all rules.
func (c *receipt) settle(ctx context.Context, rule string, cost int) error {
	var errs []error
	for _, by := range [...]decider{byStore, byFallback} { // the store may have gone down, or come back, before the turn of the request
		own := c.unsettled(nil, func(_ int, a *asked) (int, bool) {
			return cost, a.by == by && (rule == "" || rule == a.rule.Name)
		})
		errs = append(errs, c.settleAll(ctx, own, ending{}))
	}
	return errors.Join(errs...)
}

// Renew extends the holds of d by another minute, unless they have been settled or have ended. A hold ends 60 to 66
// seconds after it was made or last renewed. Adapters renew the holds of requests in flight. The error wraps
// ErrUnavailable if the store is down; you can then try again.
func (l *Limiter) Renew(ctx context.Context, d Decision) error {
	if _, err := l.current(); err != nil {
		return prefix(err)
	}
	return l.eachOwn(&d, func(c *receipt) error { return c.renew(orBackground(ctx)) })
}

// SetCost sets what the request in ctx costs under a rule with a CostAfter. The CostAfter gets it as Outcome.Cost.
// Handlers call SetCost with their request's context; the last call counts. It returns false and does nothing if the
// rule did not apply to the request, if the request has ended, or if cost is negative. If no limiter of the request has
// such a rule, or the rule has no CostAfter, SetCost also logs a warning, once per rule name and for at most 100 names.
// It is safe for concurrent use.
func SetCost(ctx context.Context, rule string, cost int) (ok bool) {
	if cost < 0 {
		return false
	}
	rule = ruleName(rule)
	var first *Limiter
	known := false
	for _, d := range slices.Backward(carriedBy(ctx).decisions()) {
		for _, r := range d.receipts() {
			ok = r.setCost(rule, cost) || ok
			own := r.limiter.rules.Load().byName[rule]
			known = known || own != nil && own.CostAfter != nil
			first = cmp.Or(first, r.limiter)
		}
	}
	if first != nil && !ok && !known {
		first.reporter.costIgnored(ctx, rule, first.rules.Load().ignoresCost(rule))
	}
	return ok
}

// ignoresCost returns an error that says why SetCost has no effect for a rule without CostAfter.
func (s *ruleset) ignoresCost(rule string) error {
	if s.byName[rule] == nil {
		return s.noRule(rule)
	}
	return invalid("rule %q has no CostAfter, such as func(_ *http.Request, o core.Outcome) int { return o.Cost }", rule)
}

// setCost records the cost under a rule with CostAfter. It reports whether the rule's claim is held and not settled.
func (c *receipt) setCost(rule string, cost int) (ok bool) {
	if !c.held { // the lock of such receipts is one for all
		return false
	}
	c.mu().Lock()
	defer c.mu().Unlock()
	claims := c.claims()
	for i := range claims {
		if one := &claims[i]; one.rule.Name == rule && one.isHeld() && one.rule.CostAfter != nil {
			if c.extra.costs == nil {
				c.extra.costs = make(map[int]int)
			}
			c.extra.costs[i], ok = cost, true
		}
	}
	return ok
}
