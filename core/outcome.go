package core

import (
	"cmp"
	"context"
	"net/http"
)

// An Outcome is how a request ended.
type Outcome struct {
	// Cost is the cost that was held for the request or, if the handler called SetCost, the cost that it set.
	Cost int

	// Status is the status code that the client got: 200 if the handler wrote nothing, 101 after an upgrade.
	Status int

	// Bytes is the length of the response's body.
	Bytes int64

	// Err is not nil if the handler panicked, if the client disconnected, or if the handler returned an error to which
	// no response was written.
	Err error
}

// Failures is for Rule.CostAfter: only failed requests count. It returns o.Cost if o.Err is not nil or if o.Status is 400 or
// above, else 0.
func Failures(_ *http.Request, o Outcome) int {
	if o.Err != nil || o.Status >= 400 {
		return o.Cost
	}
	return 0
}

// SetCost sets what the request in ctx costs under a rule with a CostAfter. The CostAfter gets it as Outcome.Cost.
// Handlers call SetCost with their request's context; the last call counts. It returns false and does nothing if the
// rule did not apply to the request, if the request has ended, or if cost is negative. If no limiter of the request has
// such a rule, or the rule has no CostAfter, SetCost also logs a warning, once per rule name. It is safe for concurrent
// use.
func SetCost(ctx context.Context, rule string, cost int) (ok bool) {
	if cost < 0 {
		return false
	}
	rule = ruleName(rule)
	var first *Limiter
	known := false
	for c := carriedBy(ctx); c != nil; c = c.before() {
		var d Decision
		c.own(&d)
		for _, r := range d.receipts() {
			ok = r.setCost(rule, cost) || ok
			known = known || r.limiter.hasCostAfter(rule)
			first = cmp.Or(first, r.limiter)
		}
	}
	if first != nil && !ok && !known {
		first.reporter.costIgnored(ctx, rule, first.rules.Load().ignoresCost(rule))
	}
	return ok
}

// hasCostAfter reports whether l has a rule of this name with a CostAfter.
func (l *Limiter) hasCostAfter(rule string) bool {
	r := l.rules.Load().named(rule)
	return r != nil && r.CostAfter != nil
}

// ignoresCost returns an error that says why SetCost has no effect for a rule without CostAfter.
func (s *ruleset) ignoresCost(rule string) error {
	if s.named(rule) == nil {
		return s.noRule(rule)
	}
	return invalid("rule %q has no CostAfter, such as func(_ *http.Request, o core.Outcome) int { return o.Cost }", rule)
}
