package core

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// A charge is what a limiter asked of a store for one request, and what came of it: a Decision is a view of it. It has
// room for what is usual, one claim of a rule with one limit, so that such a decision costs one allocation.
type charge struct {
	limiter *Limiter // nil if several made the decision together: see rest
	rest    *rest    // of what is not usual; nil if all is
	rule    *Rule    // of the only claim, whose result is in result; nil if it is not usual
	key     string   // of that claim; empty if it was not charged
	cost    uint8    // of that claim

	made    bool // Guard is done with it
	allowed bool
	peek    bool
	settled atomic.Bool // the only claim

	result [1]Result
}

// rest is what few charges have.
type rest struct {
	claims   []Claim       // that were charged, with At
	settled  []atomic.Bool // each of them
	results  []Result
	degraded error     // why the fallback decided; nil if the store did
	joined   []*charge // those of several limiters, in place of all else
	given    *Decision // to NewContext, in place of all else
	route    error     // a callback asked for the route, which is not known
}

func (l *Limiter) newCharge() *charge { return &charge{limiter: l} }

// usual notes whether c has room for claims, the last of which is of rule.
func (c *charge) usual(rule *Rule, claims []Claim) {
	if rule == nil || len(claims) != 1 || len(rule.Limits) != 1 {
		return
	}
	claim := &claims[0]
	if &claim.Limits[0] == &rule.Limits[0] && claim.DryRun == rule.DryRun && claim.Cost <= math.MaxUint8 {
		c.rule = rule
	}
}

// dst returns where a store puts the results of claims.
func (c *charge) dst(claims []Claim) []Result {
	if c.rule != nil {
		return c.result[:0]
	}
	return make([]Result, 0, countLimits(claims))
}

// note notes what a store made of claims.
func (c *charge) note(claims []Claim, results []Result) {
	c.allowed = true
	for i := range results {
		c.allowed = c.allowed && (results[i].Allowed || results[i].DryRun)
	}
	if c.rule == nil {
		if c.rest == nil {
			c.rest = new(rest)
		}
		c.rest.claims, c.rest.results = c.charged(claims, results), results
		c.rest.settled = make([]atomic.Bool, len(c.rest.claims))
		return
	}
	if &results[0] != &c.result[0] {
		c.result[0] = results[0]
	}
	if c.allowed && results[0].Allowed && !claims[0].Peek {
		c.key, c.cost = claims[0].Key, uint8(claims[0].Cost)
	}
}

// charged returns those of claims that a store has charged, with the instants at which it did.
func (c *charge) charged(claims []Claim, results []Result) (charged []Claim) {
	for i := range claims {
		claim := claims[i]
		claim.At = results[0].At
		fits := c.allowed && !claim.Peek
		for range claim.Limits {
			fits = fits && results[0].Allowed
			results = results[1:]
		}
		if fits {
			charged = append(charged, claim)
		}
	}
	return charged
}

// results returns what the store said.
func (c *charge) results() []Result {
	switch {
	case c.rest != nil:
		return c.rest.results
	case c.rule != nil:
		return c.result[:]
	}
	return nil
}

// view sets d to the decision.
func (c *charge) view(d *Decision) {
	d.Allowed, d.charge = c.allowed, c
	switch {
	case c.rest != nil:
		d.Results, d.Degraded = c.rest.results, c.rest.degraded
	case c.rule != nil:
		d.Results = c.result[:]
	}
	d.At = instantOf(d.Results)
}

// instantOf returns the instant that results are shown with: that of the tightest one. They differ only if servers with a
// clock each decided them.
func instantOf(results []Result) time.Time {
	for i := 1; i < len(results); i++ {
		if !results[i].At.Equal(results[0].At) {
			return results[max(tightest(results), 0)].At
		}
	}
	if len(results) == 0 {
		return time.Time{}
	}
	return results[0].At
}

// settleAt settles the claims of a rule, or all if it is empty, at a cost.
func (c *charge) settleAt(ctx context.Context, rule string, cost int) error {
	claims := c.unsettled(rule)
	if len(claims) == 0 {
		return nil
	}
	for i := range claims {
		claims[i].Final = cost
	}
	return c.store().settle(ctx, claims)
}

// unsettled returns the claims of a rule, or all if it is empty, that were charged and not settled yet. They count as
// settled from now on.
func (c *charge) unsettled(rule string) (claims []Claim) {
	switch {
	case c.rest != nil:
		for i := range c.rest.claims {
			if claim := &c.rest.claims[i]; (rule == "" || rule == claim.Rule) && c.rest.settled[i].CompareAndSwap(false, true) {
				claims = append(claims, *claim)
			}
		}
	case c.key != "" && (rule == "" || rule == c.rule.Name) && c.settled.CompareAndSwap(false, true):
		claims = []Claim{{
			Rule: c.rule.Name, Key: c.key, Limits: c.rule.Limits, Cost: int(c.cost), DryRun: c.rule.DryRun, At: c.result[0].At,
		}}
	}
	return claims
}

// store returns the client of the store that decided.
func (c *charge) store() *storeClient {
	if c.rest != nil && c.rest.degraded != nil {
		return c.limiter.fallback
	}
	return c.limiter.store
}
