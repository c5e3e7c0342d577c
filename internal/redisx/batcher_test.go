package redisx_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// TestEachGetsTheAnswerOfItsTurn checks that callers who travel together are decided one after the other.
func TestEachGetsTheAnswerOfItsTurn(t *testing.T) {
	const rate = 600
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	for name, claims := range map[string][]core.Claim{
		"one bucket":   {claimOf("a", core.PerDay(rate))},
		"some buckets": {claimOf("b", core.PerDay(rate), core.Every(rate, 9*24*time.Hour)), claimOf("c", core.PerDay(rate))},
		"all kinds":    {claimOf("d", everyAlgorithm(rate, 365*24*time.Hour)...)},
	} {
		t.Run(name, func(t *testing.T) {
			before := calls(t, client, "evalsha")
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
					t.Fatalf("the request that left %d got another answer", i)
				}
			}
			if len(remaining) != rate {
				t.Errorf("%d admitted, want %d", len(remaining), rate)
			}
			if n := calls(t, client, "evalsha") - before; n > rate/64*2*64/2 {
				t.Errorf("%d calls for %d requests", n, rate/64*2*64)
			}
		})
	}
}

// TestAFlightThatHangsKeepsNobodyBack checks that callers do not queue behind calls that nobody waits for, and that hang
// for a minute.
func TestAFlightThatHangsKeepsNobodyBack(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	s := redisx.New(client, options)
	c := []core.Claim{claimOf("k", core.PerHour(1000))}
	take(t, s, c...)
	proxy.Fault.Store(redistest.SwallowReplies)
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

// TestABusyKeyKeepsItsExpiryForASecond checks when an expiry is set anew.
func TestABusyKeyKeepsItsExpiryForASecond(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	ctx := context.Background()
	for _, limits := range []string{"100000/h", "100000/h, 5000/s"} {
		t.Run(limits, func(t *testing.T) {
			flush(t, client)
			c := claimOf("k", core.MustParseLimits(limits)...)
			take(t, s, c)
			client.Persist(ctx, pairKey)
			take(t, s, c)
			if ttl := client.PTTL(ctx, pairKey).Val(); ttl >= 0 {
				t.Errorf("expires in %v, want no expiry set", ttl)
			}
			s.Shift(2 * time.Second)
			take(t, s, c)
			if ttl := client.PTTL(ctx, pairKey).Val(); ttl < 500*time.Millisecond || ttl > 1100*time.Millisecond {
				t.Errorf("expires in %v, want what a request takes to drain and a second", ttl)
			}
		})
	}
}
