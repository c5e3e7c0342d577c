package client

import (
	"context"
	"time"
)

// wait returns when c may be sent. It returns a *LimitedError if that would be too late, and the context's cause if the
// context of the request ends first.
func (t *Transport) wait(c *call) error {
	now := time.Now()
	t.mu.Lock()
	t.clock++
	if c.account == nil {
		t.arrive(c)
	}
	c.limit = t.limit(c, now)
	b, _ := c.account.admit(c, now, t.clock)
	if b == nil {
		t.mu.Unlock()
		return nil
	}
	c.wake = make(chan struct{}, 1)
	c.admitted = false
	b.add(c)
	t.mu.Unlock()
	defer func() { c.waited += time.Since(now) }()
	return t.sleep(c)
}

// limit returns when a wait that begins now must end: a moment before the deadline of the context.
func (t *Transport) limit(c *call, now time.Time) time.Time {
	limit := now.Add(t.maxWait() - c.waited)
	if deadline, ok := c.req.Context().Deadline(); ok && !limit.Before(deadline) {
		return deadline.Add(-1)
	}
	return limit
}

// sleep waits until c is admitted or its wait ends. It removes c from its queue if it fails or panics.
func (t *Transport) sleep(c *call) error {
	sending := false
	defer func() {
		if !sending { // it is too late, or OnWait panicked
			t.quit(c)
		}
	}()
	ctx := c.req.Context()
	timer := time.NewTimer(time.Hour)
	for {
		done, until, known, err := t.look(c)
		if done || err != nil {
			sending = done
			return err
		}
		t.announce(c, known)
		if c.denial != nil && !c.kept {
			keep(c.denial)
			c.kept = true
		}
		timer.Reset(time.Until(until))
		select {
		case <-c.wake:
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// look reports whether c may be sent. If not, it returns when to check again and the instant that was announced, or an
// error if the wait would take too long.
func (t *Transport) look(c *call) (done bool, until, known time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if c.in != nil {
		c.account.dispatch(c.in, t, now)
	}
	if c.admitted {
		return true, until, known, nil
	}
	known = c.in.expect(c, now)
	if known.IsZero() && c.expires(now) {
		return false, now.Add(time.Second), known, nil
	}
	if known.After(c.limit) || !now.Before(c.limit) {
		return false, until, known, c.in.late(now, known)
	}
	until = c.limit
	if c.in.head == c && c.until.Before(until) {
		until = c.until
	}
	return false, until, known, nil
}

// expires reports whether the context of the request is about to end, so that the wait must end with the context's
// error.
func (c *call) expires(now time.Time) bool {
	deadline, ok := c.req.Context().Deadline()
	return ok && !now.Before(deadline.Add(-1))
}

// announce calls OnWait, once for a request.
func (t *Transport) announce(c *call, known time.Time) {
	if t.OnWait != nil && !c.announced && !known.IsZero() {
		c.announced = true
		t.OnWait(c.req, time.Until(known))
	}
}

// quit ends a call that is not sent: it removes c from its queue and dispatches the calls behind it.
func (t *Transport) quit(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := c.in; b != nil {
		b.remove(c)
		c.account.dispatch(b, t, time.Now())
	} else { // it was admitted just now
		c.account.settle(c, &report{}, time.Now(), t)
	}
}

// expect returns the announced instant before which c will not be sent; zero if there is none.
func (b *budget) expect(c *call, now time.Time) time.Time {
	if now.Before(b.promise) {
		return b.promise
	}
	if !b.isPacedWindow(c, now) {
		return time.Time{}
	}
	left := b.low.least() // an upper bound: if the requests in flight are counted already, some are not among the last fifth
	turn := c.turn - max(left-b.limit/5, 0)
	if turn < 1 {
		return time.Time{}
	}
	return b.pacedAt(turn, left)
}

// late returns the error for a call that waits for b.
func (b *budget) late(now, known time.Time) error {
	if known.IsZero() {
		return &LimitedError{Until: now}
	}
	return &LimitedError{Until: known, Status: b.status, Policy: b.name.name}
}
