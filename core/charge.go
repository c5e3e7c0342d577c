package core

import (
	"math"
	"sync/atomic"
	"time"
)

// A charge is what a limiter asked of a store for one request, and what came of it: a Decision is a view of it. It has
// room for what is usual, one claim of a rule with one limit, so that such a decision costs one allocation.
type charge struct {
	limiter *Limiter  // nil if several made the decision together: see rest
	at      time.Time // of the store, when it decided
	rest    *rest     // of what is not usual; nil if all is
	rule    *Rule     // of the only claim, whose result is in result; nil if it is not usual
	key     string    // of that claim; empty if it was not charged
	cost    uint8     // of that claim

	made     bool // Guard is done with it
	allowed  bool
	peek     bool
	refunded atomic.Bool

	result [1]Result
}

// rest is what few charges have.
type rest struct {
	claims   []Claim // that were charged
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

// dst returns where a store may put the results of claims. One that is late may do so at any time.
func (c *charge) dst(claims []Claim) []Result {
	if c.rule != nil {
		return c.result[:0]
	}
	return make([]Result, 0, countLimits(claims))
}

// settle notes what a store made of claims.
func (c *charge) settle(claims []Claim, at time.Time, results []Result) {
	c.at, c.allowed = at, true
	for i := range results {
		c.allowed = c.allowed && (results[i].Allowed || results[i].DryRun)
	}
	if c.rule == nil {
		if c.rest == nil {
			c.rest = new(rest)
		}
		c.rest.claims, c.rest.results = c.charged(claims, results), results
		return
	}
	if &results[0] != &c.result[0] {
		c.result[0] = results[0]
	}
	if c.allowed && results[0].Allowed && !claims[0].Peek {
		c.key, c.cost = claims[0].Key, uint8(claims[0].Cost)
	}
}

// charged returns those of claims that a store has charged.
func (c *charge) charged(claims []Claim, results []Result) (charged []Claim) {
	for i := range claims {
		claim := &claims[i]
		fits := c.allowed && !claim.Peek
		for range claim.Limits {
			fits = fits && results[0].Allowed
			results = results[1:]
		}
		if fits {
			charged = append(charged, *claim)
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
	d.Allowed, d.At, d.charge = c.allowed, c.at, c
	switch {
	case c.rest != nil:
		d.Results, d.Degraded = c.rest.results, c.rest.degraded
	case c.rule != nil:
		d.Results = c.result[:]
	}
}

// held returns the claims that a refund gives back.
func (c *charge) held() []Claim {
	switch {
	case c.rest != nil:
		return c.rest.claims
	case c.key != "":
		return []Claim{{Rule: c.rule.Name, Key: c.key, Limits: c.rule.Limits, Cost: int(c.cost), DryRun: c.rule.DryRun}}
	}
	return nil
}

// link returns how the store that decided is reached.
func (c *charge) link() *link {
	if c.rest != nil && c.rest.degraded != nil {
		return c.limiter.fallback
	}
	return c.limiter.store
}
