package core

import (
	"context"
	"fmt"
	"time"
)

// Wait calls Take, and then sleeps until the request may go on: the shared form of rate.Limiter.Wait, for the jobs and
// the outgoing calls of a whole fleet. The requests of all processes go in the order in which the store has decided
// them.
//
// A denied request does not wait: look at Decision.Allowed, as after Take. If ctx ends before the turn of the request,
// Wait gives back what it was charged and returns the error of ctx; if the deadline of ctx is not after the turn, it does
// so at once. If ctx has ended already, nothing is charged. Otherwise, Wait returns the same errors as Take.
func (l *Limiter) Wait(ctx context.Context, claims ...Claim) (d Decision, err error) {
	ctx = orBackground(ctx)
	if err = ctx.Err(); err != nil {
		return d, err
	}
	c := &receipt{limiter: l, sleeps: true}
	if err = l.take(ctx, c, claims); err != nil {
		return d, err
	}
	if c.view(&d); !d.Allowed {
		return d, nil
	}
	err = l.sleep(ctx, d.Wait)
	if err == nil { // also if there was nothing to wait for
		err = ctx.Err()
	}
	if err != nil {
		_ = c.settle(ctx, "", 0) // what cannot be given back stays charged
		return Decision{}, err
	}
	return d, nil
}

// await sleeps until the request of c, which was decided, may go on. If ctx ends first, all that it was
// charged is given back.
func (l *Limiter) await(ctx context.Context, c *receipt) error {
	err := l.sleep(ctx, c.wait())
	if err != nil {
		_ = c.settle(ctx, "", 0)
		return prefix(&cutShort{err})
	}
	return nil
}

// sleep waits for d, or until ctx ends. It returns at once if ctx ends by then. If d is not 0, the request has entered.
func (l *Limiter) sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	defer l.waiting.Add(-1)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return context.DeadlineExceeded
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// cutShort is the error of a request whose context ended while it waited.
type cutShort struct{ err error }

func (e *cutShort) Error() string {
	return fmt.Sprintf("the request did not wait for its turn: %v", e.err)
}

func (e *cutShort) Unwrap() []error { return []error{ErrUnavailable, e.err} }
