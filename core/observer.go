package core

import (
	"context"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// An Observer is called after the decision for each request that a rule applied to, including requests that were denied or
// could not be decided. It is called once more when a request that held a cost has been settled. It is not called for
// peeks. The request waits for the observer, so it must not block. It must be safe for concurrent use. If it panics, the
// panic is logged and the decision stands.
type Observer func(ctx context.Context, o *Observation)

// An Observation describes one request to an Observer. It and its Claims are valid only during the call. Do not change Results or Claims.
type Observation struct {
	// Decision is zero if nothing was decided.
	Decision

	// Claims has the key and the cost of the request under each rule. If a rule's key func, Cost or Tier failed, its
	// claim is the last one and has no key. After a settlement, Claims are the claims that were held. If a request did not
	// get its turn under a rule with MaxWait, what it would have held then is a peek here, without limits of requests in
	// flight.
	Claims []Claim

	// Request is the request that key funcs see; nil for Take.
	Request *http.Request

	// Err says why nothing was decided. It wraps ErrNoKey, ErrBadKey, ErrInvalid or ErrUnavailable, or a key func's error.
	// After a settlement, it says why the settlement or a CostAfter failed. If a callback panicked, Err wraps an error with
	// a method Stack() []byte.
	Err error

	// An observer that logs Err sets Logged, so that the limiter does not log it again.
	Logged bool

	// Store is how long the store took. It is 0 if the store was not asked, and for a MemoryStore, because measuring
	// would take longer than the decision.
	Store time.Duration

	// Outcome is how the request ended. It is nil in the observation of a decision.
	Outcome *Outcome

	// Charged is the final cost of a settled request: the sum over Claims, at most math.MaxInt.
	Charged int
}

var observations = sync.Pool{New: func() any { return new(Observation) }}

// release returns o to the pool. It clears the fields that would keep the request in memory.
func (o *Observation) release() {
	*o = Observation{Claims: o.Claims[:0]}
	observations.Put(o)
}

// An ending is how a request that held something has ended, for observers.
type ending struct {
	request *http.Request
	outcome Outcome // its Cost does not count
	err     error   // the error of a CostAfter
}

// observe calls the observers for a request, and logs err if the request was not decided. They may keep room. took is how long
// the store took. observe returns err as the caller of the limiter gets it.
func (l *Limiter) observe(ctx context.Context, r *http.Request, c *receipt, room *[1]Result, took time.Duration, err error) error {
	err = prefix(err)
	claims := c.claims()
	charges := slices.ContainsFunc(claims, func(a asked) bool { return !a.peek })
	if !charges && (err == nil || len(claims) > 0) || c.stage == peeking {
		return err
	}
	o := observations.Get().(*Observation)
	o.Claims = slices.Grow(o.Claims, len(claims))[:len(claims)]
	for i := range claims {
		claims[i].makeClaim(&o.Claims[i])
	}
	if o.Request, o.Store = r, took; err != nil {
		o.Err = err
	} else {
		o.Decision = c.view(room)
	}
	l.notify(ctx, o, 0)
	if err != nil && r != nil && !o.Logged {
		l.reporter.failed(ctx, notDecided, o.Claims, err)
	}
	o.release()
	return err
}

// observeSettled calls the observers for the settled holds of c, and logs the error of a CostAfter. err is the store's error.
func (l *Limiter) observeSettled(ctx context.Context, c *receipt, held []Settlement, took time.Duration, e ending, err error) {
	o := observations.Get().(*Observation)
	e.outcome.Cost = 0
	for i := range held {
		s := &held[i]
		o.Claims = append(o.Claims, Claim{Rule: s.Rule, Key: s.Key, Limits: s.Limits, Cost: s.Cost, DryRun: s.DryRun, Hold: true, Lease: s.Lease})
		o.Charged = addCosts(o.Charged, s.Final)
		e.outcome.Cost = addCosts(e.outcome.Cost, s.asked)
	}
	o.Decision = c.view(new([1]Result))
	o.Request, o.Err, o.Store, o.Outcome = e.request, prefix(allOf(e.err, err)), took, &e.outcome
	l.notify(ctx, o, 0)
	if e.err != nil && !o.Logged {
		l.reporter.failed(ctx, finalFailed, o.Claims, prefix(e.err))
	}
	o.release()
}

// notify passes o to the observers, except for the first n. A panic must not fail a request that was charged.
func (l *Limiter) notify(ctx context.Context, o *Observation, n int) {
	defer func() {
		if v := recover(); v != nil {
			l.reporter.panicked(ctx, v, debug.Stack())
			l.notify(ctx, o, n+1)
		}
	}()
	for ; n < len(l.observers); n++ {
		l.observers[n](ctx, o)
	}
}
