package core

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// An Observer is told of each request that a rule applied to, once, after the decision: also of one that was denied, and
// of one that was not decided. Peeks are not observed. The request waits for it, so it must not block, and it must be safe
// for concurrent use. If it panics, the panic is logged and the decision stands.
type Observer func(ctx context.Context, o *Observation)

// An Observation is what an Observer is told of one request. It and its Claims are valid during the call only.
type Observation struct {
	// Decision is the zero value if nothing was decided.
	Decision

	// Claims says whose request it was and what was asked for. If the key, the cost or the tier of a rule failed, the
	// claim of that rule is the last one and has no key.
	Claims []Claim

	// Request is the request as key funcs see it. It is nil for Take.
	Request *http.Request

	// Err says why nothing was decided. It wraps ErrNoKey, ErrBadKey, ErrInvalid or ErrUnavailable, or is the error of a
	// key func.
	Err error

	// Store is how long the store took. It is 0 if the store was not asked.
	Store time.Duration
}

var observations = sync.Pool{New: func() any { return new(Observation) }}

// observe tells the observers of a request and logs why it was not decided. Took is how long the store took.
func (l *Limiter) observe(ctx context.Context, r *http.Request, c *receipt, claims []Claim, took time.Duration, err error) {
	if c.peek || len(claims) == 0 && err == nil || allPeek(claims) {
		return
	}
	if err != nil && r != nil {
		l.reporter.undecided(ctx, claims, err)
	}
	if len(l.observers) == 0 {
		return
	}
	o := observations.Get().(*Observation)
	o.Claims = append(o.Claims[:0], claims...)
	o.Request, o.Err, o.Store = r, err, took
	o.Decision, _ = c.outcome(err)
	for _, observer := range l.observers {
		l.tell(ctx, observer, o)
	}
	clear(o.Claims)
	*o = Observation{Claims: o.Claims[:0]}
	observations.Put(o)
}

// tell calls observer. A panic must not fail a request that was charged.
func (l *Limiter) tell(ctx context.Context, observer Observer, o *Observation) {
	defer func() {
		if v := recover(); v != nil {
			l.reporter.panicked(ctx, v, debug.Stack())
		}
	}()
	observer(ctx, o)
}

// allPeek reports whether there are claims and none of them charges.
func allPeek(claims []Claim) bool {
	for i := range claims {
		if !claims[i].Peek {
			return false
		}
	}
	return len(claims) > 0
}
