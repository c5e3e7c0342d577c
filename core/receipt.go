package core

import (
	"slices"
	"sync"
	"time"
)

// A receipt records the claims of one request and what the store answered. A Decision is a view of a receipt, and Settle
// reads from it what was charged.
//
// Nothing that Limiter.Take calls may keep a pointer to its receipt, which is on the stack of a caller that does not keep
// the Decision.
type receipt struct {
	limiter *Limiter // nil if several limiters made the decision: see extra.joined
	extra   *extra   // nil for most requests
	stage   stage    // of the decision
	single  bool     // claim is what is asked
	decided bool     // answer is what the store answered to claim
	allowed bool
	nested  bool // an outer limiter has a receipt for the same request
	sleeps  bool // the limiter sleeps until the request's turn
	late    bool // denied only because its turn comes after the deadline of its context
	held    bool // some claim was held, so extra is not nil; settling does not change that, so reading it needs no lock

	claim  [1]asked
	answer answer
}

// An asked is a claim inside a Limiter, from the rule to the settlement. The memory store reads it; other stores and
// observers get Claims made from it.
type asked struct {
	rule *activeRule // with the Lease and the MaxWait of the claim; made for the claim if no rule of the limiter has these
	set  *limitSet
	key  string
	cost int

	dryRun  bool
	peek    bool
	hold    bool
	over    bool // the limits come from the rule's Override
	now     bool // the request must not wait, whatever MaxWait is
	by      decider
	charged bool // or held
	settled bool
}

type decider uint8

const (
	byStore decider = iota
	byFallback
	byNobody // it has no results: its rule failed open, or it holds only places and the request has not had its turn
)

// makeClaim sets c to a as observers see it.
func (a *asked) makeClaim(c *Claim) {
	c.Rule, c.Key, c.Limits, c.set = a.rule.Name, a.key, a.set.limits, a.set
	c.Cost, c.Lease, c.MaxWait = a.cost, a.rule.Lease, a.rule.MaxWait
	c.Peek, c.DryRun, c.Hold, c.Overridden = a.peek, a.dryRun, a.hold, a.over
}

// maxWait returns how long the request may wait for its turn, if it must not wait longer than most.
func (a *asked) maxWait(most time.Duration) time.Duration {
	if a.now {
		return 0
	}
	return min(a.rule.MaxWait, most)
}

func (a *asked) resultCount() int {
	if a.by == byNobody {
		return 0
	}
	return len(a.set.limits)
}

// isHeld reports whether a is held and not settled.
func (a *asked) isHeld() bool { return a.charged && a.hold && !a.settled }

// A stage is the state of a receipt's decision.
type stage uint8

const (
	deciding stage = iota // or decided by Check or Take
	decided               // by Guard
	peeking               // charges nothing
)

// extra has the fields that few receipts need.
type extra struct {
	room     [2]asked
	claims   []asked    // if there are several; uses room for up to two
	results  []Result   // if answer has no room for them
	degraded error      // why the fallback decided; nil if the store did
	joined   []*receipt // the receipts of several limiters; then all other fields are empty
	added    *Decision  // by NewContext; then all other fields are empty
	route    error      // a callback asked for a route that is not known
	waits    []Pair     // of a request that waits for its turn: what it counts against; otherwise nil

	mu       sync.Mutex        // of what becomes of claims, and of the fields below
	timer    *time.Timer       // renews the holds; nil if the caller of Take does that
	renewing chan struct{}     // closed at the end of the renewal in progress; nil if there is none
	renewed  map[int]time.Time // by claim: when its hold was last renewed
	costs    map[int]int       // by claim: what SetCost has set
}

// settling guards what becomes of the claims of receipts without extra.
var settling sync.Mutex

// mu returns the lock of what becomes of c's claims. Once the store has decided, extra does not change.
func (c *receipt) mu() *sync.Mutex {
	if c.extra != nil {
		return &c.extra.mu
	}
	return &settling
}

// more returns c.extra, and allocates it if it is nil.
func (c *receipt) more() *extra {
	if c.extra == nil {
		c.extra = new(extra)
	}
	return c.extra
}

func (c *receipt) claims() []asked {
	switch {
	case c.single:
		return c.claim[:]
	case c.extra != nil:
		return c.extra.claims
	}
	return nil
}

// add adds a claim, which is zero. It is valid until the next one is added.
func (c *receipt) add() *asked {
	if !c.single && c.extra == nil {
		c.single = true
		return &c.claim[0]
	}
	e := c.more()
	if c.single {
		c.single, e.claims = false, append(e.room[:0], c.claim[0])
	}
	e.claims = append(e.claims, asked{})
	return &e.claims[len(e.claims)-1]
}

func (c *receipt) drop() {
	if c.single {
		c.single, c.claim[0] = false, asked{}
	} else {
		c.extra.claims = c.extra.claims[:len(c.extra.claims)-1]
	}
}

// results returns what the store answered. The caller must not change it.
func (c *receipt) results() []Result { return c.resultsIn(new([1]Result)) } // inlined, so that the room is on the caller's stack

func (c *receipt) resultsIn(room *[1]Result) []Result {
	switch {
	case c.decided:
		c.answer.unpack(&room[0], &c.claim[0])
		return room[:]
	case c.extra != nil:
		return c.extra.results
	}
	return nil
}

// keep records what a store answered to the claims of c. It keeps the slice, unless answer has room for what that says.
func (c *receipt) keep(results []Result) {
	if c.decided = c.single && len(results) == 1 && c.answer.pack(&results[0], &c.claim[0]); !c.decided {
		c.more().results = results
	}
}

// record records what the store's answer means for the claims.
func (c *receipt) record() {
	if c.decided {
		a, fits := &c.claim[0], c.answer.wait >= 0
		a.charged = fits && !a.peek
		c.allowed, c.held = fits || a.dryRun, a.charged && a.hold
	} else {
		c.recordResults()
	}
	if c.held {
		c.more()
	}
}

// recordResults is record for the results in extra.
func (c *receipt) recordResults() {
	claims, results := c.claims(), c.extra.results
	c.allowed, c.held = true, false
	for i := range claims {
		a := &claims[i]
		own := results[:a.resultCount()]
		results = results[len(own):]
		a.charged = !a.peek && a.by != byNobody
		for j := range own {
			a.charged = a.charged && own[j].Allowed
			c.allowed = c.allowed && (own[j].Allowed || own[j].DryRun)
		}
	}
	for i := range claims {
		a := &claims[i]
		a.charged = a.charged && c.allowed
		c.held = c.held || a.charged && a.hold
	}
}

// each yields the index of each claim of c, which has been decided, and the results of the claim.
func (c *receipt) each(yield func(i int, own []Result) bool) {
	claims, results := c.claims(), c.results()
	for i := range claims {
		n := claims[i].resultCount()
		if !yield(i, results[:n:n]) {
			return
		}
		results = results[n:]
	}
}

// settlements appends the Settlements of claim i to dst, which was charged and has the results own. If the request may have
// waited, there is one Settlement per limit, because each limit gave the request its own turn.
func (c *receipt) settlements(dst []Settlement, i, final int, own []Result) []Settlement {
	a := &c.claims()[i]
	s := Settlement{
		Rule: a.rule.Name, Key: a.key, Limits: a.set.limits, At: own[0].At, Cost: a.cost, DryRun: a.dryRun, Held: a.hold,
		Lease: a.rule.Lease, MaxWait: a.rule.MaxWait, Final: final, set: a.set, rule: a.rule, local: a.by == byFallback, asked: max(a.cost, 1),
	}
	if e := c.extra; e != nil && !e.renewed[i].IsZero() {
		s.At = e.renewed[i]
	}
	if s.MaxWait == 0 || final >= max(s.Cost, 1) {
		return append(dst, s)
	}
	for j := range own {
		one := s
		if one.Wait = own[j].Wait; len(own) > 1 {
			one.Limits, one.set = s.Limits[j:j+1], nil
		}
		dst = append(dst, one)
	}
	return dst
}

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

func (c *receipt) isEmpty() bool { return len(c.claims()) == 0 }

// waits reports whether the request of c waits for its turn.
func (c *receipt) waits() bool { return c.extra != nil && len(c.extra.waits) > 0 }

// view returns the decision, with room for the result of answer. If room already has that, view does not write to it, because
// an observer may have kept it.
func (c *receipt) view(room *[1]Result) (d Decision) {
	d.Allowed, d.receipt = c.allowed, c
	if c.decided {
		r := &room[0]
		if r.Rule == "" {
			c.answer.unpack(r, &c.claim[0])
		}
		if d.Results, d.At = room[:], r.At; !r.DryRun {
			d.Wait = r.Wait
		}
	} else if c.extra != nil {
		d.Results = c.extra.results
		d.At = d.instant()
		d.Wait = c.waitFrom(d.At)
	}
	if c.extra != nil {
		d.Degraded = c.extra.degraded
	}
	return d
}

// unsettled appends settlements of those claims to dst that were charged or held, are not settled, and are wanted, and marks
// them as settled. final returns the final cost of a claim. unsettled waits for a renewal in progress.
func (c *receipt) unsettled(dst []Settlement, final func(i int, a *asked) (cost int, wanted bool)) []Settlement {
	c.lockIdle()
	defer c.mu().Unlock()
	claims, results := c.claims(), c.results()
	for i := range claims { // c.each would move dst to the heap
		a := &claims[i]
		own := results[:a.resultCount()]
		results = results[len(own):]
		if !a.charged || a.settled {
			continue
		}
		if cost, wanted := final(i, a); wanted {
			a.settled = true
			dst = c.settlements(dst, i, cost, own)
		}
	}
	if c.extra != nil && c.extra.timer != nil && !c.holds() {
		c.extra.timer.Stop()
	}
	return dst
}

// storeOf returns the store that decided what some settles.
func (c *receipt) storeOf(some []Settlement) *storeClient {
	if some[0].local {
		return c.limiter.fallback
	}
	return c.limiter.store
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

// holds reports whether a claim is held and not settled. The caller has locked c.mu().
func (c *receipt) holds() bool {
	return slices.ContainsFunc(c.claims(), func(one asked) bool { return one.isHeld() })
}

// lockIdle waits until no renewal is in progress and locks c.mu(). It does not hold the lock while it waits.
func (c *receipt) lockIdle() {
	mu := c.mu()
	mu.Lock()
	for c.extra != nil && c.extra.renewing != nil {
		done := c.extra.renewing
		mu.Unlock()
		<-done
		mu.Lock()
	}
}
