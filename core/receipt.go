package core

import (
	"sync"
	"time"
)

// A receipt is what a Limiter asked of a store for one request and what the store answered. A Decision is a view of it, and Settle
// reads in it what was charged.
type receipt struct {
	limiter *Limiter // nil if several limiters made the decision: see extra.joined
	rules   *ruleset // active when the claims were made
	results []Result // what the store answered
	extra   *extra   // nil for most requests
	stage   stage    // of the decision
	allowed bool
	sleeps  bool // the limiter sleeps until the turn of the request
	nested  bool // the context that carries it extends one that carries another

	mu     sync.Mutex // of claims, and of the renewal in extra
	claims []claimed

	room struct { // for most requests, so that their decision takes one allocation
		results [1]Result
		claims  [1]claimed
	}
}

// A stage is how far the decision of a receipt is, as far as others need to know.
type stage uint8

const (
	deciding stage = iota // or decided by Check or Take
	decided               // by Guard
	peeking               // and not deciding at all
)

// extra is what few receipts have.
type extra struct {
	degraded error      // why the fallback decided; nil if the store did
	joined   []*receipt // those of several limiters; then all else is empty
	added    *Decision  // by NewContext; then all else is empty
	route    error      // a callback asked for the route, which is not known

	timer    *time.Timer   // renews what is held; nil if the caller of Take does
	renewing chan struct{} // closed at the end of the renewal in progress; nil if there is none
}

// A claimed is what a receipt keeps of a claim.
type claimed struct {
	rule, key string

	// What a Settlement needs. A claim that was not charged has none of it.
	limits       *limitSet
	at           time.Time
	lease        time.Duration
	maxWait      time.Duration
	cost         int
	setCost      int // by SetCost; -1 for nothing
	dryRun, held bool
	charged      bool // or held
	settled      bool
	first        int32 // of its results
}

// settlement returns the Settlement of c at a final cost.
func (c *claimed) settlement(final int) Settlement {
	return Settlement{
		Rule: c.rule, Key: c.key, Limits: c.limits.limits, set: c.limits, At: c.at, Cost: c.cost, DryRun: c.dryRun, Held: c.held,
		Lease: c.lease, MaxWait: c.maxWait, Final: final,
	}
}

// settlements appends the Settlements of c at a final cost to dst. If the request may have waited, it gives back each limit by itself:
// each has a turn of its own. Results are those of the request.
func (c *claimed) settlements(dst []Settlement, final int, results []Result) []Settlement {
	s := c.settlement(final)
	if c.maxWait == 0 || final >= max(c.cost, 1) {
		return append(dst, s)
	}
	for i := range s.Limits {
		one := s
		if one.Wait = results[int(c.first)+i].Wait; len(s.Limits) > 1 {
			one.Limits, one.set = s.Limits[i:i+1], nil
		}
		dst = append(dst, one)
	}
	return dst
}

// roomFor returns where a store puts the results of claims.
func (c *receipt) roomFor(claims []Claim) []Result {
	n := countLimits(claims)
	if n <= len(c.room.results) {
		return c.room.results[:0]
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

// record records what a store decided about claims.
func (c *receipt) record(claims []Claim, results []Result) {
	c.results, c.allowed = results, true
	for i := range results {
		c.allowed = c.allowed && (results[i].Allowed || results[i].DryRun)
	}
	if c.claims == nil {
		if c.claims = c.room.claims[:0]; len(claims) > 1 {
			c.claims = make([]claimed, 0, len(claims))
		}
	}
	for i := range claims {
		claim := &claims[i]
		first := len(c.results) - len(results)
		own := results[:len(claim.Limits)]
		results = results[len(own):]
		c.claims = append(c.claims, claimed{rule: claim.Rule, key: claim.Key})
		if c.allowed && !claim.Peek && allAllowed(own) {
			one := &c.claims[len(c.claims)-1]
			one.limits, one.at, one.lease, one.cost, one.setCost = claim.compile(), own[0].At, claim.Lease, claim.Cost, -1
			one.dryRun, one.held, one.charged, one.maxWait, one.first = claim.DryRun, claim.Hold, true, claim.MaxWait, int32(first)
		}
	}
}

func allAllowed(results []Result) bool {
	for i := range results {
		if !results[i].Allowed {
			return false
		}
	}
	return true
}

// keyOf returns the key of the first claim of a rule.
func (c *receipt) keyOf(rule string) (key string, ok bool) {
	for i := range c.claims {
		if c.claims[i].rule == rule {
			return c.claims[i].key, true
		}
	}
	return "", false
}

// decides reports whether c has decided about a rule. It has not if the rule asked for nothing.
func (c *receipt) decides(rule string) bool {
	_, ok := c.keyOf(rule)
	return ok
}

// isEmpty reports whether no rule asked for anything.
func (c *receipt) isEmpty() bool { return len(c.claims) == 0 }

// degraded returns why the fallback decided, or nil if the store did.
func (c *receipt) degraded() error {
	if c.extra == nil {
		return nil
	}
	return c.extra.degraded
}

// denies reports whether c has decided that the request is denied.
func (c *receipt) denies() bool { return !c.allowed }

// view sets d, which is zero, to the decision.
func (c *receipt) view(d *Decision) {
	d.Allowed, d.At, d.Results, d.Wait, d.receipt = c.allowed, instantOf(c.results), c.results, c.wait(), c
	if c.extra != nil {
		d.Degraded = c.extra.degraded
	}
}

// unsettled returns settlements, at a final cost, of the claims of a rule, or of all if it is empty, that were charged and not settled
// yet. They count as settled from now on. It waits for a renewal in progress.
func (c *receipt) unsettled(rule string, final int) (some []Settlement) {
	c.lockIdle()
	defer c.mu.Unlock()
	for i := range c.claims {
		if one := &c.claims[i]; (rule == "" || rule == one.rule) && one.charged && !one.settled {
			one.settled = true
			some = one.settlements(some, final, c.results)
		}
	}
	if c.extra != nil && c.extra.timer != nil && !c.holds() {
		c.extra.timer.Stop()
	}
	return some
}

// store returns the store that decided.
func (c *receipt) store() *storeClient {
	if c.degraded() != nil {
		return c.limiter.fallback
	}
	return c.limiter.store
}
