package core

import (
	"slices"
	"sync"
	"time"
)

// A receipt records the claims of one request and the results of the store. A Decision is a view of a receipt, and
// Settle reads from it what was charged.
type receipt struct {
	limiter *Limiter // nil if several limiters made the decision: see extra.joined
	extra   *extra   // nil for most requests
	stage   stage    // of the decision
	allowed bool
	nested  bool // an outer limiter has a receipt for the same request
	sleeps  bool // the limiter sleeps until the request's turn
	late    bool // denied only because its turn comes after the deadline of its context
	decided bool // result is what the store answered
	held    bool // some claim was held; settling does not change that, so reading it needs no lock

	mu     sync.Mutex // of what becomes of claims, and of the renewal in extra
	claim  [1]receiptClaim
	result [1]Result
}

// A receiptClaim is what a receipt keeps of a claim.
type receiptClaim struct {
	rule    *activeRule // that made the claim; nil in an empty receipt
	key     string
	set     *limitSet
	cost    int
	setCost int // by SetCost, plus 1; 0 for nothing
	dryRun  bool
	hold    bool
	open    bool // it has no results: see Claim.open
	local   bool // the fallback decided it
	charged bool // or held
	settled bool
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
	room     [2]receiptClaim
	claims   []receiptClaim // if there is more than one; uses room for up to two
	results  []Result       // if there are several
	degraded error          // why the fallback decided; nil if the store did
	joined   []*receipt     // the receipts of several limiters; then all other fields are empty
	added    *Decision      // by NewContext; then all other fields are empty
	route    error          // a callback asked for a route that is not known
	waits    place          // of a request that waits for its turn

	timer    *time.Timer       // renews the holds; nil if the caller of Take does that
	renewing chan struct{}     // closed at the end of the renewal in progress; nil if there is none
	renewed  map[int]time.Time // by claim: when its hold was last renewed
}

// claims returns what c has asked for.
func (c *receipt) claims() []receiptClaim {
	switch {
	case c.extra != nil && c.extra.claims != nil:
		return c.extra.claims
	case c.claim[0].rule != nil:
		return c.claim[:]
	}
	return nil
}

// results returns what the store answered.
func (c *receipt) results() []Result {
	switch {
	case c.extra != nil && c.extra.results != nil:
		return c.extra.results
	case c.decided:
		return c.result[:]
	}
	return nil
}

// roomFor returns a slice with room for the results of claims. Most requests have one, and their decision takes one allocation.
func (c *receipt) roomFor(claims []Claim) []Result {
	n := countLimits(claims)
	if n == 1 {
		return c.result[:0]
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

// record records claims, and the store's results for those that have not failed open.
func (c *receipt) record(claims []Claim, results []Result) {
	if c.decided = len(results) == 1 && &results[0] == &c.result[0]; !c.decided && len(results) > 0 {
		c.more().results = results
	}
	own := c.claim[:]
	if len(claims) > 1 {
		e := c.more()
		e.claims = slices.Grow(e.room[:0], len(claims))[:len(claims)]
		own = e.claims
	}
	c.allowed, c.held = true, false
	for i := range claims {
		from, to := &claims[i], &own[i]
		to.rule, to.key, to.set, to.cost = from.rule, from.Key, from.set, from.Cost
		to.dryRun, to.hold, to.open, to.local = from.DryRun, from.Hold, from.open, from.local
		to.charged = !from.Peek && !from.open
		for n := len(from.Limits); n > 0 && !from.open; n-- {
			r := &results[0]
			results = results[1:]
			to.charged = to.charged && r.Allowed
			c.allowed = c.allowed && (r.Allowed || r.DryRun)
		}
		c.held = c.held || to.charged && to.hold
	}
	for i := 0; i < len(claims) && !c.allowed; i++ {
		own[i].charged, c.held = false, false
	}
}

// settlement returns a Settlement of claim i, which was charged.
func (c *receipt) settlement(i, final int) Settlement {
	claim, at, renewed := &c.claims()[i], time.Time{}, false
	if c.extra != nil {
		at, renewed = c.extra.renewed[i]
	}
	if !renewed {
		at = c.results()[c.firstResult(i)].At
	}
	return Settlement{
		Rule: claim.rule.Name, Key: claim.key, Limits: claim.set.limits, At: at, Cost: claim.cost, DryRun: claim.dryRun, Held: claim.hold,
		Lease: claim.rule.Lease, MaxWait: claim.maxWait(), Final: final, set: claim.set, rule: claim.rule, local: claim.local,
	}
}

// maxWait returns the MaxWait that the limits of c were charged under. No request waits for what it holds.
func (c *receiptClaim) maxWait() time.Duration {
	if c.hold {
		return 0
	}
	return c.rule.MaxWait
}

// settlements appends the Settlements of claim i, which was charged, to dst. If the request may have waited, there is
// one Settlement per limit, because each limit gave the request its own turn.
func (c *receipt) settlements(dst []Settlement, i, final int) []Settlement {
	s := c.settlement(i, final)
	if s.MaxWait == 0 || final >= max(s.Cost, 1) {
		return append(dst, s)
	}
	for j := range s.Limits {
		one := s
		if one.Wait = c.results()[c.firstResult(i)+j].Wait; len(s.Limits) > 1 {
			one.Limits, one.set = s.Limits[j:j+1], nil
		}
		dst = append(dst, one)
	}
	return dst
}

// firstResult returns the index of the first result of claim i.
func (c *receipt) firstResult(i int) (first int) {
	for _, one := range c.claims()[:i] {
		if !one.open {
			first += len(one.set.limits)
		}
	}
	return first
}

// forget resets c to the state before the decision.
func (c *receipt) forget() { c.extra, c.decided, c.claim[0] = nil, false, receiptClaim{} }

// keyOf returns the key of the first claim of a rule.
func (c *receipt) keyOf(rule string) (key string, ok bool) {
	claims := c.claims()
	for i := range claims {
		if claims[i].rule.Name == rule {
			return claims[i].key, true
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
func (c *receipt) isEmpty() bool { return len(c.claims()) == 0 }

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
	results := c.results()
	at := instantOf(results)
	wait := c.waitFrom(at)
	d.Allowed, d.At, d.Results, d.Wait, d.receipt = c.allowed, at, results, wait, c // the pointers share a write barrier
	if c.extra != nil {
		d.Degraded = c.extra.degraded
	}
}

// unsettled returns a settlement, at a final cost, for each claim of a rule that was charged and is not settled, and
// marks these claims as settled. An empty rule means all rules. unsettled waits for a renewal in progress.
func (c *receipt) unsettled(rule string, final int) (some []Settlement) {
	c.lockIdle()
	defer c.mu.Unlock()
	claims := c.claims()
	for i := range claims {
		if one := &claims[i]; (rule == "" || rule == one.rule.Name) && one.charged && !one.settled {
			one.settled = true
			some = c.settlements(some, i, final)
		}
	}
	if c.extra != nil && c.extra.timer != nil && !c.holds() {
		c.extra.timer.Stop()
	}
	return some
}

// storeOf returns the store that decided what some settles.
func (c *receipt) storeOf(some []Settlement) *storeClient {
	if some[0].local {
		return c.limiter.fallback
	}
	return c.limiter.store
}

// costOf returns what the claim of a rule was charged, or 0.
func (c *receipt) costOf(rule string) int {
	claims := c.claims()
	for i := range claims {
		if one := &claims[i]; one.charged && one.rule.Name == rule {
			return max(one.cost, 1)
		}
	}
	return 0
}

// askedOf returns the cost that claim i was decided for: the sum of all claims of its rule and key.
func (c *receipt) askedOf(i int) (sum int) {
	claims := c.claims()
	for j := range claims {
		if one, other := &claims[i], &claims[j]; one.rule.Name == other.rule.Name && one.key == other.key && one.dryRun == other.dryRun {
			sum += max(other.cost, 1)
		}
	}
	return sum
}

// waitFrom returns how long after an instant, or after the decision if that is zero, the request may go on.
func (c *receipt) waitFrom(at time.Time) (longest time.Duration) {
	if !c.allowed {
		return 0
	}
	results := c.results()
	for i := range results {
		if r := &results[i]; !r.DryRun && r.Wait > 0 {
			wait := r.Wait
			if !at.IsZero() {
				wait += r.At.Sub(at) // not 0 if the request had its turn before it held something
			}
			longest = max(longest, wait)
		}
	}
	return longest
}

// routeError returns an error if a callback has asked for a route that is not known.
func (c *receipt) routeError() error {
	if c.extra == nil {
		return nil
	}
	return c.extra.route
}

// isHeld reports whether c is held and not settled.
func (c *receiptClaim) isHeld() bool { return c.charged && c.hold && !c.settled }

// holds reports whether a claim is held and not settled. The caller has locked c.mu.
func (c *receipt) holds() bool {
	return slices.ContainsFunc(c.claims(), func(one receiptClaim) bool { return one.isHeld() })
}

// lockIdle waits until no renewal is in progress and locks c.mu. It does not hold c.mu while it waits.
func (c *receipt) lockIdle() {
	c.mu.Lock()
	for c.extra != nil && c.extra.renewing != nil {
		done := c.extra.renewing
		c.mu.Unlock()
		<-done
		c.mu.Lock()
	}
}
