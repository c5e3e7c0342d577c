package redisx_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// TestRequestsOfABatchAreDecidedInOrder checks that each of 64 concurrent callers gets the result of its own place in the order.
func TestRequestsOfABatchAreDecidedInOrder(t *testing.T) {
	const rate = 600
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	for name, claims := range map[string][]core.Claim{
		"one bucket":   {claimOf("a", core.PerDay(rate))},
		"some buckets": {claimOf("b", core.PerDay(rate), core.Every(rate, 9*24*time.Hour)), claimOf("c", core.PerDay(rate))},
		"all kinds":    {claimOf("d", everyAlgorithm(rate, 365*24*time.Hour)...)},
	} {
		t.Run(name, func(t *testing.T) {
			before := calls(t, client, "fcall")
			var mu sync.Mutex
			var remaining []int
			var callers sync.WaitGroup
			for range 64 {
				callers.Go(func() {
					for range rate / 64 * 2 {
						results, err := s.Take(context.Background(), claims, nil)
						if err != nil {
							t.Error(err)
							return
						}
						if allowed(results) {
							mu.Lock()
							remaining = append(remaining, results[0].Remaining)
							mu.Unlock()
						}
					}
				})
			}
			callers.Wait()
			slices.Sort(remaining)
			for i, n := range remaining {
				if i != n {
					t.Fatalf("no request left %d remaining", i)
				}
			}
			if len(remaining) != rate {
				t.Errorf("%d admitted, want %d", len(remaining), rate)
			}
			if n := calls(t, client, "fcall") - before; n > rate/64*2*64/2 {
				t.Errorf("%d calls for %d requests", n, rate/64*2*64)
			}
		})
	}
}

// TestCallThatHangsDelaysNoLaterRequest checks that requests do not queue behind calls that hang for a minute and whose callers
// have given up.
func TestCallThatHangsDelaysNoLaterRequest(t *testing.T) {
	s, proxy, one := silentServer(t)
	c := []core.Claim{one}
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			if _, err := s.Take(ctx, c, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want a deadline exceeded", err)
			}
		})
	}
	callers.Wait()
	proxy.Fault.Store(redistest.NoFault)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := s.Take(ctx, c, nil); err != nil {
		t.Errorf("after calls that hang: %v", err)
	}
}
