package core

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A receipt is what a Limiter asked of a store for one request and what the store answered. A Decision is a view of it,
// and Settle reads in it what was charged. The most frequent case, one claim of a rule with one limit, has fields of its
// own, so that its decision takes one allocation.
type receipt struct {
	limiter *Limiter // nil if several limiters made the decision: see extra.joined
	extra   *extra   // nil in the most frequent case

	rule    *activeRule // of the only claim, which has one limit; nil in other cases
	key     string      // of that claim
	cost    uint8       // of that claim; 0 if it was not charged
	stage   stage       // of the decision
	allowed bool
	nested  bool        // the context that carries it extends one that carries another
	settled atomic.Bool // that claim, or it was not charged
	result  [1]Result   // of that claim
}

// A stage is how far the decision of a receipt is, as far as others need to know.
type stage uint8

const (
	deciding stage = iota // or decided by Check or Take
	decided               // by Guard
	peeking               // and not deciding at all
)

// extra is what receipts other than the most frequent ones have.
type extra struct {
	rules    *ruleset // in force when the claims were made
	results  []Result
	free     []Pair     // of the claims that were not charged
	degraded error      // why the fallback decided; nil if the store did
	open     []Pair     // of the claims that admitted the request without a result, because they fail open
	joined   []*receipt // those of several limiters; then all else is empty
	added    *Decision  // by NewContext; then all else is empty
	route    error      // a callback asked for the route, which is not known

	mu       sync.Mutex // of what follows
	charged  []charged
	room     [1]charged    // of charged, for one claim
	timer    *time.Timer   // renews what is held; nil if the caller of Take does
	renewing chan struct{} // closed at the end of the renewal in progress; nil if there is none
}

// A charged claim is one that a store has charged or holds, as the Settlement that it needs.
type charged struct {
	Settlement
	settled bool
	setCost int // by SetCost; -1 for nothing
}

// expect prepares c for claims, the last of which is of rule.
func (c *receipt) expect(rule *activeRule, claims []Claim) {
	if rule == nil || len(claims) != 1 || rule.only == nil {
		return
	}
	claim := &claims[0]
	if &claim.Limits[0] == &rule.Limits[0] && claim.DryRun == rule.DryRun && claim.Lease == rule.Lease &&
		claim.Cost <= math.MaxUint8 && !claim.Hold {
		c.rule = rule
	}
}

// room returns where a store puts the results of claims.
func (c *receipt) room(claims []Claim) []Result {
	n := countLimits(claims)
	if n == 1 {
		return c.result[:0]
	}
	return make([]Result, 0, n)
}

// more returns c.extra, which it makes if there is none.
func (c *receipt) more() *extra {
	if c.extra == nil {
		c.extra = new(extra)
	}
	return c.extra
}

// record records what a store decided about claims, which rules have made.
func (c *receipt) record(rules *ruleset, claims []Claim, results []Result) {
	if c.rule != nil {
		c.result[0] = results[0]
		c.recordOne(claims[0].Key, claims[0].Cost, claims[0].Peek)
		return
	}
	c.allowed = true
	for i := range results {
		c.allowed = c.allowed && (results[i].Allowed || results[i].DryRun)
	}
	e := c.more()
	e.rules, e.results = rules, results
	e.note(claims, c.allowed)
}

// recordOne records c.result, which a store has answered to the only claim, of this key and cost.
func (c *receipt) recordOne(key string, cost int, peek bool) {
	r := &c.result[0]
	c.allowed = r.Allowed || r.DryRun
	c.key = key
	if r.Allowed && !peek {
		c.cost = uint8(cost)
	} else {
		c.settled.Store(true)
	}
}

// note notes which of claims, whose results are in e, were charged: none unless they were allowed together.
func (e *extra) note(claims []Claim, allowed bool) {
	e.charged = e.room[:0]
	results := e.results
	for i := range claims {
		claim := &claims[i]
		fits, at := allowed && !claim.Peek, results[0].At
		for range claim.Limits {
			fits = fits && results[0].Allowed
			results = results[1:]
		}
		if fits {
			e.charged = append(e.charged, charged{Settlement: claim.settlement(at), setCost: -1})
		} else {
			e.free = append(e.free, Pair{claim.Rule, claim.Key})
		}
	}
}

// keyOf returns the key of the first claim of a rule.
func (c *receipt) keyOf(rule string) (string, bool) {
	if c.extra == nil {
		if c.rule == nil || c.rule.Name != rule {
			return "", false
		}
		return c.key, true
	}
	for i := range c.extra.charged {
		if one := &c.extra.charged[i]; one.Rule == rule {
			return one.Key, true
		}
	}
	for _, pairs := range [][]Pair{c.extra.free, c.extra.open} {
		for _, p := range pairs {
			if p.Rule == rule {
				return p.Key, true
			}
		}
	}
	return "", false
}

// results returns what the store answered.
func (c *receipt) results() []Result {
	switch {
	case c.extra != nil:
		return c.extra.results
	case c.rule != nil:
		return c.result[:]
	}
	return nil
}

// decides reports whether c has decided about a rule. It has not if the rule asked for nothing.
func (c *receipt) decides(rule string) bool {
	return slices.ContainsFunc(c.results(), func(r Result) bool { return r.Rule == rule }) ||
		c.extra != nil && slices.ContainsFunc(c.extra.open, func(p Pair) bool { return p.Rule == rule })
}

// isEmpty reports whether no rule asked for anything.
func (c *receipt) isEmpty() bool {
	return len(c.results()) == 0 && (c.extra == nil || c.extra.degraded == nil)
}

// denies reports whether c has decided that the request is denied.
func (c *receipt) denies() bool { return !c.allowed }

// one returns the decision of the only claim.
func (c *receipt) one() Decision {
	return Decision{Allowed: c.allowed, At: c.result[0].At, Results: c.result[:], receipt: c}
}

// view sets d, which is zero, to the decision.
func (c *receipt) view(d *Decision) {
	d.Allowed, d.receipt = c.allowed, c
	if c.extra == nil && c.rule != nil {
		d.Results, d.At = c.result[:], c.result[0].At
		return
	}
	d.Results = c.results()
	if c.extra != nil {
		d.Degraded = c.extra.degraded
	}
	d.At = instantOf(d.Results)
}

// settlement returns that of the only claim of c.
func (c *receipt) settlement() Settlement {
	return Settlement{
		Rule: c.rule.Name, Key: c.key, Limits: c.rule.Limits, Cost: int(c.cost), DryRun: c.rule.DryRun, At: c.result[0].At,
		Lease: c.rule.Lease,
	}
}

// unsettled returns settlements of the claims of a rule, or of all if it is empty, that were charged and not settled yet. They
// count as settled from now on. It waits for a renewal in progress.
func (c *receipt) unsettled(rule string) []Settlement {
	switch {
	case c.extra != nil:
		return c.extra.unsettled(rule)
	case c.key != "" && (rule == "" || rule == c.rule.Name) && c.settled.CompareAndSwap(false, true):
		return []Settlement{c.settlement()}
	}
	return nil
}

func (e *extra) unsettled(rule string) (some []Settlement) {
	e.lockIdle()
	defer e.mu.Unlock()
	for i := range e.charged {
		if one := &e.charged[i]; (rule == "" || rule == one.Rule) && !one.settled {
			one.settled = true
			some = append(some, one.Settlement)
		}
	}
	if e.timer != nil && !e.holds() {
		e.timer.Stop()
	}
	return some
}

// store returns the store that decided.
func (c *receipt) store() *storeClient {
	if c.extra != nil && c.extra.degraded != nil {
		return c.limiter.fallback
	}
	return c.limiter.store
}
