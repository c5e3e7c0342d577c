package core

import (
	"sync"
	"time"
)

// A receipt records the claims of one request and the results of the store. A Decision is a view of a receipt, and
// Settle reads from it what was charged.
type receipt struct {
	limiter *Limiter // nil if several limiters made the decision: see extra.joined
	rules   *ruleset // active when the claims were made
	results []Result // what the store answered
	extra   *extra   // nil for most requests
	stage   stage    // of the decision
	allowed bool
	nested  bool // an outer limiter has a receipt for the same request
	sleeps  bool // the limiter sleeps until the request's turn

	mu     sync.Mutex // of claims, and of the renewal in extra
	claims []Claim

	room struct { // large enough for most requests, so that a decision takes one allocation
		results [1]Result
		claims  [1]Claim
	}
}

// A stage is the state of a receipt's decision.
type stage uint8

const (
	deciding stage = iota // or decided by Check or Take
	decided               // by Guard
	peeking               // charges nothing
)

// extra has the fields that few receipts need.
type extra struct {
	degraded error      // why the fallback decided; nil if the store did
	joined   []*receipt // the receipts of several limiters; then all other fields are empty
	added    *Decision  // by NewContext; then all other fields are empty
	route    error      // a callback asked for a route that is not known

	timer    *time.Timer       // renews the holds; nil if the caller of Take does that
	renewing chan struct{}     // closed at the end of the renewal in progress; nil if there is none
	renewed  map[int]time.Time // by claim: when its hold was last renewed
}

// roomFor returns a slice with room for the results of claims.
func (c *receipt) roomFor(claims []Claim) []Result {
	n := countLimits(claims)
	if n == 1 {
		return c.room.results[:0]
	}
	return make([]Result, 0, n)
}

// more returns c.extra, and allocates it if it is nil.
func (c *receipt) more() *extra {
	if c.extra == nil {
		c.extra = new(extra)
	}
	return c.extra
}

// record records the store's results for the claims that have not failed open.
func (c *receipt) record(results []Result) {
	c.results, c.allowed = results, true
	for i := range results {
		c.allowed = c.allowed && (results[i].Allowed || results[i].DryRun)
	}
	for i := range c.claims {
		if claim := &c.claims[i]; !claim.open {
			claim.charged = c.allowed && !claim.Peek
			for range claim.Limits {
				claim.charged = claim.charged && results[0].Allowed
				results = results[1:]
			}
		}
	}
}

// settlement returns a Settlement of claim i, which was charged.
func (c *receipt) settlement(i, final int) Settlement {
	if c.extra != nil {
		if at, ok := c.extra.renewed[i]; ok {
			return c.claims[i].settlement(at, final)
		}
	}
	return c.claims[i].settlement(c.results[c.firstResult(i)].At, final)
}

// settlements appends the Settlements of claim i, which was charged, to dst. If the request may have waited, there is
// one Settlement per limit, because each limit gave the request its own turn.
func (c *receipt) settlements(dst []Settlement, i, final int) []Settlement {
	s, claim := c.settlement(i, final), &c.claims[i]
	if claim.MaxWait == 0 || final >= max(claim.Cost, 1) {
		return append(dst, s)
	}
	for j := range s.Limits {
		one := s
		if one.Wait = c.results[c.firstResult(i)+j].Wait; len(s.Limits) > 1 {
			one.Limits, one.set = s.Limits[j:j+1], nil
		}
		dst = append(dst, one)
	}
	return dst
}

// firstResult returns the index of the first result of claim i.
func (c *receipt) firstResult(i int) (first int) {
	for j := range c.claims[:i] {
		if !c.claims[j].open {
			first += len(c.claims[j].Limits)
		}
	}
	return first
}

// forget resets c to the state before its claims were decided.
func (c *receipt) forget() {
	c.results, c.extra = nil, nil
	for i := range c.claims {
		claim := &c.claims[i]
		claim.open, claim.charged, claim.settled = false, false, false
	}
}

// keyOf returns the key of the first claim of a rule.
func (c *receipt) keyOf(rule string) (key string, ok bool) {
	for i := range c.claims {
		if c.claims[i].Rule == rule {
			return c.claims[i].Key, true
		}
	}
	return "", false
}

// decides reports whether c has a claim of a rule.
func (c *receipt) decides(rule string) bool {
	_, ok := c.keyOf(rule)
	return ok
}

// isEmpty reports whether c has no claims.
func (c *receipt) isEmpty() bool { return len(c.claims) == 0 }

// degraded returns why the fallback decided, or nil if the store did.
func (c *receipt) degraded() error {
	if c.extra == nil {
		return nil
	}
	return c.extra.degraded
}

// denies reports whether the request is denied.
func (c *receipt) denies() bool { return !c.allowed }

// view sets d, which is zero, to the decision.
func (c *receipt) view(d *Decision) {
	d.Allowed, d.At, d.Results, d.Wait, d.receipt = c.allowed, instantOf(c.results), c.results, c.wait(), c
	if c.extra != nil {
		d.Degraded = c.extra.degraded
	}
}

// unsettled returns a settlement, at a final cost, for each claim of a rule that was charged and is not settled, and
// marks these claims as settled. An empty rule means all rules. unsettled waits for a renewal in progress.
func (c *receipt) unsettled(rule string, final int) (some []Settlement) {
	c.lockIdle()
	defer c.mu.Unlock()
	for i := range c.claims {
		if one := &c.claims[i]; (rule == "" || rule == one.Rule) && one.charged && !one.settled {
			one.settled = true
			some = c.settlements(some, i, final)
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
