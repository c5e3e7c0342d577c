package core

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A link is how a limiter reaches a store: within a deadline and through a breaker, or straight if the store is in this
// process's memory.
type link struct {
	store    Store
	memory   *MemoryStore // store, if it is one
	punctual bool         // see Store
	timeout  time.Duration
	breaker  breaker
}

func newLink(s Store, timeout time.Duration) *link {
	m, _ := s.(*MemoryStore)
	_, punctual := s.(interface{ Punctual() })
	return &link{store: s, memory: m, punctual: punctual, timeout: timeout}
}

// take has the store decide claims. It appends to dst only on success, but the store may write beyond dst's length at
// any time if it is late. It does not keep claims.
func (k *link) take(ctx context.Context, claims []Claim, dst []Result) (time.Time, []Result, error) {
	if k.memory != nil {
		return k.memory.Take(ctx, claims, dst)
	}
	return k.ask(ctx, slices.Clone(claims), dst)
}

// ask is take for a store that may be late: claims are its own.
func (k *link) ask(ctx context.Context, claims []Claim, dst []Result) (time.Time, []Result, error) {
	var reply struct {
		at      time.Time
		results []Result
	}
	err := k.call(ctx, func(ctx context.Context) (err error) {
		reply.at, reply.results, err = k.store.Take(ctx, claims, dst)
		if got, want := len(reply.results)-len(dst), countLimits(claims); err == nil && got != want {
			err = fmt.Errorf("the store returned %d results for %d limits", got, want)
		}
		return err
	})
	if err != nil {
		return time.Time{}, dst, err
	}
	return reply.at, reply.results, nil
}

func countLimits(claims []Claim) (n int) {
	for i := range claims {
		n += len(claims[i].Limits)
	}
	return n
}

func (k *link) refund(ctx context.Context, claims []Claim, at time.Time) error {
	return k.call(ctx, func(ctx context.Context) error { return k.store.Refund(ctx, claims, at) })
}

func (k *link) reset(ctx context.Context, claims []Claim) error {
	return k.call(ctx, func(ctx context.Context) error { return k.store.Reset(ctx, claims) })
}

// call runs f until it ends or the deadline passes. The client's context does not end it: who hangs up early is charged
// all the same.
func (k *link) call(ctx context.Context, f func(context.Context) error) error {
	ctx = context.WithoutCancel(ctx)
	if k.memory != nil {
		return f(ctx)
	}
	if err := k.breaker.enter(time.Now()); err != nil {
		return err
	}
	err := k.callWithin(ctx, f)
	k.breaker.record(ctx, time.Now(), err)
	return err
}

// callWithin runs f and returns what it returns, or an error when the deadline passes.
func (k *link) callWithin(ctx context.Context, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, k.timeout)
	run := func() error {
		defer k.breaker.leave()
		return recovered(limited, f)
	}
	if k.punctual {
		defer cancel()
		return run()
	}
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- run()
	}()
	select {
	case err := <-done:
		return err
	case <-limited.Done():
	}
	select {
	case err := <-done: // f ended, and that ended limited
		return err
	default:
		return context.DeadlineExceeded
	}
}

// recovered turns a panic of f into an error, because f may run in a goroutine where nobody else would recover it.
func recovered(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = invalid("the store panicked: %v", v)
		}
	}()
	return f(ctx)
}
