package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/deadline"
)

// A question is what a store that is not in memory is asked. Such stores cannot keep it, so it is pooled.
type question struct {
	claims  []Claim
	results []Result // empty, with room for all results
	room    [1]Result
	limits  int
}

var questions = sync.Pool{New: func() any { return new(question) }}

// ask sets q to those claims of c that by decides.
func (q *question) ask(c *receipt, by decider, most time.Duration) {
	q.claims, q.limits = q.claims[:0], 0
	claims := c.claims()
	for i := range claims {
		if a := &claims[i]; a.by == by {
			q.claims = append(q.claims, Claim{})
			own := &q.claims[len(q.claims)-1]
			a.makeClaim(own)
			own.MaxWait = a.maxWait(most)
			q.limits += len(own.Limits)
		}
	}
	if q.results = q.room[:0]; q.limits > 1 {
		q.results = make([]Result, 0, q.limits) // the receipt keeps them
	}
}

// check returns an error if there is not one result per claim and limit.
func (q *question) check(results []Result) error {
	if len(results) != q.limits {
		return fmt.Errorf("the store returned %d results for %d limits", len(results), q.limits)
	}
	return nil
}

// takeLocal reports false if the store has to be asked.
func (k *storeClient) takeLocal(q *question) (results []Result, ok bool, err error) {
	defer func() { ok = ok || err != nil }() // a store that panics decides
	defer storePanicked(&err)
	if results, ok = k.local.TakeLocal(q.claims, q.results); ok {
		err = q.check(results)
	}
	return results, ok, err
}

// storePanicked makes a panic of a store an error. Defer it.
func storePanicked(err *error) {
	if v := recover(); v != nil {
		*err = invalid("the store panicked: %v", v)
	}
}

var errNoReturn = errors.New("the store did not return")

// call runs f with a context that ends at the deadline, unless enter, a method of the breaker, denies the call. It returns how
// long f took. A panic of f becomes an error. The breaker learns the outcome even if f ends its goroutine: a probe whose outcome
// is unknown would keep it open forever.
func (k *storeClient) call(ctx context.Context, enter func(time.Time) (breaker.Call, error), f func(context.Context) error) (took time.Duration, err error) {
	begun := time.Now()
	call, err := enter(begun)
	if err != nil {
		return 0, err
	}
	err = errNoReturn
	defer func() {
		ended := time.Now()
		if !errors.Is(err, breaker.ErrTooMany) { // otherwise the call waited, but the store was not asked
			took = ended.Sub(begun)
		}
		k.record(ctx, ended, call, err)
	}()
	defer storePanicked(&err)
	err = f(k.within(begun, ctx))
	return 0, err
}

// record tells the breaker how a call ended, and logs if that begins or ends an outage. Neither claims at fault nor a store with
// too many calls in flight say anything about its health.
func (k *storeClient) record(ctx context.Context, now time.Time, call breaker.Call, err error) {
	var down bool
	switch {
	case err == nil:
		down = call.Succeed(now)
	case errors.Is(err, ErrInvalid), errors.Is(err, breaker.ErrTooMany):
		down = call.Dismiss()
	default:
		down = call.Fail(now, err)
	}
	k.outages.note(ctx, now, down)
}

// A sharedDeadline is the end of calls that began within a short time of each other. They share one context and its timer.
type sharedDeadline struct {
	begun  time.Time // the first call
	ctx    context.Context
	cancel context.CancelFunc // not called: the context ends at the deadline
}

// sharing is the part of the timeout within which calls share a deadline: the later ones wait that much shorter.
const sharing = 64

// within returns the context of a call that begins at now. It has the values of ctx, but ends at the deadline only: a
// client that disconnects is still charged.
func (k *storeClient) within(now time.Time, ctx context.Context) context.Context {
	d := k.deadline.Load()
	if d == nil || now.Sub(d.begun) > k.timeout/sharing || now.Before(d.begun) {
		d = &sharedDeadline{begun: now}
		d.ctx, d.cancel = context.WithDeadline(context.Background(), now.Add(k.timeout))
		k.deadline.Store(d)
	}
	return &callContext{deadline.Context{Context: d.ctx}, ctx}
}

// A callContext ends with one context and has the values of another.
type callContext struct {
	deadline.Context
	values context.Context
}

// Value implements context.Context. The context that ends comes first: contexts derived from c find its end by a value.
func (c *callContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
