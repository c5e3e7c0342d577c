package core

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// An Observer is called after the decision for each request that a rule applied to, including requests that were denied or
// could not be decided. It is called once more when a request that held a cost has been settled. It is not called for
// peeks. The request waits for the observer, so it must not block. It must be safe for concurrent use. If it panics, the
// panic is logged and the decision stands.
type Observer func(ctx context.Context, o *Observation)

// An Observation describes one request to an Observer. It and its Claims are valid only during the call.
type Observation struct {
	// Decision is zero if nothing was decided.
	Decision

	// Claims has the key and the cost of the request under each rule. If a rule's key func, Cost or Tier failed, its
	// claim is the last one and has no key. After a settlement, Claims are the claims that were held.
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

	// Charged is the final cost of a settled request: the sum over Claims.
	Charged int
}

var observations = sync.Pool{New: func() any { return new(Observation) }}

// newObservation returns an Observation from the pool, without claims.
func newObservation() *Observation {
	o := observations.Get().(*Observation)
	o.Claims = o.Claims[:0]
	return o
}

// observe calls the observers for a request, and logs err if the request was not decided. took is how long the store
// took.
func (l *Limiter) observe(ctx context.Context, r *http.Request, c *receipt, claims []Claim, took time.Duration, err error) {
	if err == nil && (len(l.observers) == 0 || len(claims) == 0) || c.stage == peeking || allPeek(claims) {
		return
	}
	o := newObservation()
	o.Claims = append(o.Claims, claims...)
	o.Request, o.Err, o.Store = r, err, took
	if err == nil {
		c.view(&o.Decision)
	}
	l.notifyAll(ctx, o)
	if err != nil && r != nil && !o.Logged {
		l.reporter.failed(ctx, notDecided, o.Claims, err)
	}
	o.release()
}

// observeSettled calls the observers for the settled holds of c, and logs the error of a CostAfter. err is the error of
// the store.
func (l *Limiter) observeSettled(ctx context.Context, c *receipt, held []Settlement, took time.Duration, e ending, err error) {
	if e.err == nil && len(l.observers) == 0 {
		return
	}
	o := newObservation()
	for i := range held {
		o.Claims = append(o.Claims, held[i].claim())
		o.Charged += held[i].Final
	}
	c.view(&o.Decision)
	outcome := e.outcome
	o.Request, o.Err, o.Store, o.Outcome = e.request, prefix(allOf(e.err, err)), took, &outcome
	l.notifyAll(ctx, o)
	if e.err != nil && !o.Logged {
		l.reporter.failed(ctx, finalFailed, o.Claims, prefix(e.err))
	}
	o.release()
}

// release returns o to the pool. It clears the fields that would keep the request in memory.
func (o *Observation) release() {
	*o = Observation{Claims: o.Claims}
	observations.Put(o)
}

// notifyAll passes o to the observers.
func (l *Limiter) notifyAll(ctx context.Context, o *Observation) {
	for _, observer := range l.observers {
		l.notify(ctx, observer, o)
	}
}

// notify calls observer. A panic must not fail a request that was charged.
func (l *Limiter) notify(ctx context.Context, observer Observer, o *Observation) {
	defer func() {
		if v := recover(); v != nil {
			l.reporter.panicked(ctx, v, debug.Stack())
		}
	}()
	observer(ctx, o)
}

// allPeek reports whether there are claims and all of them are peeks.
func allPeek(claims []Claim) bool {
	for i := range claims {
		if !claims[i].Peek {
			return false
		}
	}
	return len(claims) > 0
}
