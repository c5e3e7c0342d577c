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

func newLink(s Store, timeout time.Duration, log *reporter) *link {
	m, _ := s.(*MemoryStore)
	_, punctual := s.(interface{ Punctual() })
	return &link{store: s, memory: m, punctual: punctual, timeout: timeout, breaker: breaker{log: log}}
}

// take has the store decide claims. It appends to dst only on success, but a store that is late may write beyond dst's
// length at any time. It does not keep claims. If measured, it returns how long the store took.
func (k *link) take(ctx context.Context, claims []Claim, dst []Result, measured bool) (at time.Time, results []Result, took time.Duration, err error) {
	if k.memory != nil {
		var begun time.Time
		if measured {
			begun = time.Now()
		}
		at, results, err = k.memory.Take(ctx, claims, dst)
		if measured {
			took = time.Since(begun)
		}
		return at, results, took, err
	}
	own := slices.Clone(claims) // for a store that is late; and claims that any store got could not stay on a stack
	if k.punctual {
		took, err = k.callHere(ctx, func(ctx context.Context) (err error) {
			at, results, err = k.ask(ctx, own, dst)
			return err
		})
	} else {
		at, results, took, err = k.takeThere(ctx, own, dst)
	}
	if err != nil {
		return time.Time{}, dst, took, err
	}
	return at, results, took, nil
}

// takeThere is take for a store that may be late.
func (k *link) takeThere(ctx context.Context, claims []Claim, dst []Result) (time.Time, []Result, time.Duration, error) {
	var reply struct {
		at      time.Time
		results []Result
	}
	took, err := k.callThere(ctx, func(ctx context.Context) (err error) {
		reply.at, reply.results, err = k.ask(ctx, claims, dst)
		return err
	})
	if err != nil {
		return time.Time{}, nil, took, err
	}
	return reply.at, reply.results, took, nil
}

func (k *link) ask(ctx context.Context, claims []Claim, dst []Result) (time.Time, []Result, error) {
	at, results, err := k.store.Take(ctx, claims, dst)
	if got, want := len(results)-len(dst), countLimits(claims); err == nil && got != want {
		err = fmt.Errorf("the store returned %d results for %d limits", got, want)
	}
	return at, results, err
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
func (k *link) call(ctx context.Context, f func(context.Context) error) (err error) {
	switch {
	case k.memory != nil:
		return f(context.WithoutCancel(ctx))
	case k.punctual:
		_, err = k.callHere(ctx, f)
	default:
		_, err = k.callThere(ctx, f)
	}
	return err
}

// callHere is call for a store that heeds the deadline. It allocates no more than the context.
func (k *link) callHere(ctx context.Context, f func(context.Context) error) (took time.Duration, err error) {
	ctx = context.WithoutCancel(ctx)
	now := time.Now()
	if err := k.breaker.enter(now); err != nil {
		return 0, err
	}
	limited := &timed{Context: ctx, deadline: now.Add(k.timeout)}
	err = k.run(limited, f)
	limited.finish(context.Canceled)
	ended := time.Now()
	k.breaker.record(ctx, ended, err)
	return ended.Sub(now), err
}

// callThere is call for a store that may not: f gets a goroutine of its own.
func (k *link) callThere(ctx context.Context, f func(context.Context) error) (took time.Duration, err error) {
	ctx = context.WithoutCancel(ctx)
	now := time.Now()
	if err := k.breaker.enter(now); err != nil {
		return 0, err
	}
	err = k.callWithin(ctx, f)
	ended := time.Now()
	k.breaker.record(ctx, ended, err)
	return ended.Sub(now), err
}

// callWithin runs f and returns what it returns, or an error when the deadline passes.
func (k *link) callWithin(ctx context.Context, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, k.timeout)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- k.run(limited, f)
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

// run turns a panic of f into an error, because f may run in a goroutine where nobody else would recover it.
func (k *link) run(ctx context.Context, f func(context.Context) error) (err error) {
	defer k.breaker.leave()
	defer func() {
		if v := recover(); v != nil {
			err = invalid("the store panicked: %v", v)
		}
	}()
	return f(ctx)
}
