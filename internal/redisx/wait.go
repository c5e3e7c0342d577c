package redisx

import (
	"context"
	"fmt"
	"sync"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
)

// maxRunning bounds the calls of a store in flight, including those whose callers have given up.
const maxRunning = 4096

// running has an element for each call in flight.
type running chan struct{}

// within runs f and returns its error. If ctx ends first, it returns ctx's error, through late. A client with the default
// options does not watch ctx, so f may go on for as long as the timeouts of the client say; at most maxRunning calls do.
func (r running) within(ctx context.Context, late func(error) error, f func(context.Context) error) error {
	select {
	case r <- struct{}{}:
	case <-ctx.Done():
		return breaker.ErrTooMany
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-r }()
		var err error
		defer func() {
			if v := recover(); v != nil {
				err = panicked(v)
			}
			done <- err
		}()
		err = f(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return late(ctx.Err())
	}
}

// panicked returns the error for a panic of the client with value v.
func panicked(v any) error {
	return fmt.Errorf("%w: the Redis client panicked: %v", core.ErrInvalid, v)
}

// each runs f for 0 to n-1 at once and waits.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(func() { f(i) })
	}
	f(0)
	wg.Wait()
}
