package core

import (
	"context"
	"net/http"
	"runtime/debug"
	"time"
)

// An ending is how a request that held something has ended, for observers.
type ending struct {
	request *http.Request
	outcome Outcome
	err     error // the error of a CostAfter
}

// observe calls the observers for a request, and logs err if the request was not decided. They may keep room. took is how long
// the store took. observe returns err as the caller of the limiter gets it.
func (l *Limiter) observe(ctx context.Context, r *http.Request, c *receipt, room *[1]Result, took time.Duration, err error) error {
	if err != nil {
		err = prefix(err)
	}
	claims := c.claims()
	if err == nil && len(claims) == 0 || c.stage == peeking || allPeek(claims) {
		return err
	}
	o := c.observation()
	if o.Request, o.Store = r, took; err != nil {
		o.Err = err
	} else {
		o.Decision = c.view(room)
	}
	l.notify(ctx, o, 0)
	if err != nil && r != nil && !o.Logged {
		l.reporter.failed(ctx, notDecided, o.Claims, err)
	}
	o.release(c)
	return err
}

// observeSettled calls the observers for the settled holds of c, and logs the error of a CostAfter. err is the error of
// the store.
func (l *Limiter) observeSettled(ctx context.Context, c *receipt, held []Settlement, took time.Duration, e ending, err error) {
	o := c.observation()
	o.Claims = o.Claims[:0]
	for i := range held {
		o.Claims = append(o.Claims, held[i].claim())
		o.Charged += held[i].Final
	}
	o.Decision = c.view(new([1]Result))
	outcome := e.outcome
	o.Request, o.Err, o.Store, o.Outcome = e.request, prefix(allOf(e.err, err)), took, &outcome
	l.notify(ctx, o, 0)
	if e.err != nil && !o.Logged {
		l.reporter.failed(ctx, finalFailed, o.Claims, prefix(e.err))
	}
	o.release(c)
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

// allPeek reports whether there are claims and all of them are peeks.
func allPeek(claims []asked) bool {
	for i := range claims {
		if !claims[i].peek {
			return false
		}
	}
	return len(claims) > 0
}
