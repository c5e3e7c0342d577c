package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A FailureMode says what a rule does while the store is down. Only faults of the store lead to it; a missing key, a bad
// cost or a client that hung up never do.
type FailureMode uint8

const (
	// FailLocal enforces the same limits from this process's memory.
	FailLocal FailureMode = iota

	// FailOpen admits.
	FailOpen

	// FailClosed refuses: the decision is an error that wraps ErrUnavailable.
	FailClosed
)

// decide has the store decide the claims of c, within the deadline, and falls back on the failure modes of their rules.
func (l *Limiter) decide(ctx context.Context, c *charge) (Decision, error) {
	if len(c.claims) == 0 {
		return Decision{Allowed: true}, nil
	}
	d, err := l.take(ctx, l.store, c)
	if err != nil && !errors.Is(err, ErrInvalid) {
		d, err = l.tolerate(ctx, c, unavailable(err))
	}
	if peek := c.peek; !peek {
		l.observe(ctx, d, err)
	}
	return d, err
}

// tolerate decides without the store: any FailClosed claim refuses all, FailLocal claims are decided together in the
// fallback, FailOpen claims give no results. The store may still be at work on c, so the fallback gets a charge of its own.
func (l *Limiter) tolerate(ctx context.Context, c *charge, cause error) (Decision, error) {
	local := l.newCharge()
	for _, claim := range c.claims {
		switch l.modeOf(claim.Rule) {
		case FailClosed:
			return Decision{}, cause
		case FailLocal:
			local.claims = append(local.claims, claim)
		}
	}
	d := Decision{Allowed: true}
	if len(local.claims) > 0 {
		var err error
		if d, err = l.take(ctx, l.fallback, local); err != nil {
			return Decision{}, fmt.Errorf("%w; fallback: %w", cause, err)
		}
	}
	d.Degraded = cause
	return d, nil
}

func (l *Limiter) modeOf(rule string) FailureMode {
	if r := l.byName[rule]; r != nil {
		return r.OnFailure
	}
	return FailLocal
}

// take has s decide the claims of c.
func (l *Limiter) take(ctx context.Context, s Store, c *charge) (Decision, error) {
	at, results, err := l.takeInTime(ctx, s, c)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Allowed: true, At: at, Results: results, charges: c.self[:]}
	for i := range results {
		d.Allowed = d.Allowed && (results[i].Allowed || results[i].DryRun)
	}
	c.store, c.at = s, at
	c.keepCharged(d)
	return d, nil
}

func (l *Limiter) takeInTime(ctx context.Context, s Store, c *charge) (at time.Time, results []Result, err error) {
	if m, ok := s.(*MemoryStore); ok {
		return m.Take(ctx, c.claims, c.results[:0])
	}
	var reply struct {
		at      time.Time
		results []Result
	}
	err = l.within(ctx, func(ctx context.Context) (err error) {
		reply.at, reply.results, err = s.Take(ctx, c.claims, c.results[:0])
		if err == nil && len(reply.results) != countLimits(c.claims) {
			err = fmt.Errorf("the store returned %d results for %d limits", len(reply.results), countLimits(c.claims))
		}
		return err
	})
	if err != nil {
		return time.Time{}, nil, err
	}
	return reply.at, reply.results, nil
}

func countLimits(claims []Claim) (n int) {
	for i := range claims {
		n += len(claims[i].Limits)
	}
	return n
}

// within runs f until it ends or the deadline of the store passes. The client's context does not end it: who hangs up
// early is charged all the same.
func (l *Limiter) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- recovered(ctx, f)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done: // f ended and cancelled ctx
		return err
	default:
		return context.DeadlineExceeded
	}
}

// recovered turns a panic of f into an error, because f runs in a goroutine where nobody else would recover it.
func recovered(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = invalid("the store panicked: %v", v)
		}
	}()
	return f(ctx)
}

func (l *Limiter) refund(ctx context.Context, c *charge) error {
	err := l.within(ctx, func(ctx context.Context) error { return c.store.Refund(ctx, c.claims, c.at) })
	return unavailable(err)
}

// reset resets the fallback as well: it may hold what was charged while the store was down.
func (l *Limiter) reset(ctx context.Context, c Claim) error {
	var errs []error
	for _, s := range []Store{l.store, l.fallback} {
		errs = append(errs, l.within(ctx, func(ctx context.Context) error { return s.Reset(ctx, []Claim{c}) }))
	}
	return unavailable(errors.Join(errs...))
}

func unavailable(err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
