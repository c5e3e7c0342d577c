package core

import (
	"context"
	"net/http"
)

// An Outcome is how a request ended.
type Outcome struct {
	// Cost is what was held for the request or, after SetCost, what its handler said.
	Cost int

	// Status is what the client got: 200 if the handler wrote nothing, 101 after an upgrade.
	Status int

	// Bytes is the length of the response's body.
	Bytes int64

	// Err is not nil if the handler panicked, if the client has gone, or if an error of the handler was not answered.
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

// SetCost says what a request costs, for the CostAfter of a rule: Outcome.Cost. Handlers call it with the context of the
// request. It reports whether a request of that rule, which has a CostAfter, is in flight in ctx. It does nothing and
// reports false after the end of the request, and for a negative cost. It is safe for concurrent use.
func SetCost(ctx context.Context, rule string, cost int) (ok bool) {
	if cost < 0 {
		return false
	}
	for c := carriedBy(ctx); c != nil; c = c.before() {
		var d Decision
		c.own(&d)
		for _, r := range d.receipts() {
			ok = r.setCost(ruleName(rule), cost) || ok
		}
	}
	return ok
}
