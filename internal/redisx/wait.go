package redisx

import (
	"context"
	"fmt"
	"sync"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
)

// within runs f and returns its results. If ctx ends first, it returns ctx's error, through late. A client with the default
// options does not watch ctx, so f may go on for as long as the timeouts of the client say; at most maxRunning calls do.
func within[T any](ctx context.Context, s *Store, late func(error) error, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	select {
	case s.batcher.running <- struct{}{}:
	case <-ctx.Done():
		return none, breaker.ErrTooMany
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-s.batcher.running }()
		var r result
		defer func() {
			if v := recover(); v != nil {
				r.err = panicked(v)
			}
			done <- r
		}()
		r.value, r.err = f(ctx)
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, late(ctx.Err())
	}
}

// panicked returns the error for a panic of the client with value v.
func panicked(v any) error {
	return fmt.Errorf("%w: the Redis client panicked: %v", core.ErrInvalid, v)
}

// each runs f for all of some at once and waits.
func each[T any](some []T, f func(*T)) {
	var wg sync.WaitGroup
	for i := range some[1:] {
		wg.Go(func() { f(&some[1+i]) })
	}
	f(&some[0])
	wg.Wait()
}
