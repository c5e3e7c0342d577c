package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
)

// limiterInTime returns a limiter with a timeout of 50ms, and a decision that the store made within that. The next call
// is made, however many were late before: the breaker of each limiter is its own.
func limiterInTime(t *testing.T, s core.Store) (l *core.Limiter, d core.Decision) {
	t.Helper()
	rule := core.Rule{Name: "r", Key: keyfunc.Const("all"), Limits: []core.Limit{core.PerHour(5000)}, OnFailure: core.FailClosed}
	l = core.Must(core.New([]core.Rule{rule}, core.WithStore(s), core.WithTimeout(50*time.Millisecond)))
	redistest.Wait(t, "a decision before the deadline", func() bool {
		var err error
		d, err = l.Take(context.Background(), core.Claim{Rule: "r", Key: "k"})
		return err == nil && d.Allowed
	})
	return l, d
}

// A limiter calls the store in the goroutine of the request, so each call must return in time. The client itself would wait for
// a minute.
func TestEachCallReturnsWhenItsContextIsDone(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	s := redisstore.New(client)
	claims := []core.Claim{{Key: "k", Limits: []core.Limit{core.PerHour(500)}}}
	must.Get(s.Take(context.Background(), claims, nil))(t)
	taking, _ := limiterInTime(t, s)
	refunding, decided := limiterInTime(t, s)
	resetting, _ := limiterInTime(t, s)
	must.Do(t, syscall.Kill(server.PID(), syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(server.PID(), syscall.SIGCONT) }()
	for name, call := range map[string]func(context.Context) error{
		"take": func(ctx context.Context) error { _, err := s.Take(ctx, claims, nil); return err },
		"refund": func(ctx context.Context) error {
			return s.Settle(ctx, []core.Settlement{{Key: "k", Limits: claims[0].Limits}})
		},
		"reset": func(ctx context.Context) error { return s.Reset(ctx, []core.Pair{{Key: "k"}}) },

		"take of a limiter": func(context.Context) error {
			d, err := taking.Take(context.Background(), core.Claim{Rule: "r", Key: "k"})
			return errors.Join(err, d.Degraded) // local limits decide an overload
		},
		"refund of a limiter": func(context.Context) error { return refunding.Refund(context.Background(), decided) },
		"reset of a limiter":  func(context.Context) error { return resetting.Reset(context.Background(), "r", "k") },
	} {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		err := call(ctx) // where the machine is so busy that a timer is late, this counts as an overload
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, breaker.ErrTooMany) {
			t.Errorf("%s: %v, want a deadline exceeded", name, err)
		}
		if d := time.Since(begun); d < 40*time.Millisecond || d > 20*time.Second {
			t.Errorf("%s took %v with a deadline of 50ms", name, d)
		}
		cancel()
	}
}

// Many callers wait for a stopped server. The last call returns at most 3ms later than the last of as many plain timers. On a
// busy machine both are late by chance, so the best of several rounds counts.
func TestCallersReturnAtTheDeadlineLikeTimers(t *testing.T) {
	const timeout, within, rounds = 50 * time.Millisecond, 3 * time.Millisecond, 40
	for name, inline := range map[string]bool{"default client": false, "ContextTimeoutEnabled": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: time.Minute, ContextTimeoutEnabled: inline})
			t.Cleanup(func() { client.Close() })
			s := redisstore.New(client)
			claims := []core.Claim{{Key: "k", Limits: []core.Limit{core.PerHour(500)}}}
			must.Get(s.Take(context.Background(), claims, nil))(t)
			must.Do(t, syscall.Kill(server.PID(), syscall.SIGSTOP))
			t.Cleanup(func() { _ = syscall.Kill(server.PID(), syscall.SIGCONT) })
			for _, callers := range []int{1, 8, 256} {
				closest := time.Hour
				for i := 0; i < rounds && closest > within; i++ {
					timers := longest(callers, func() { <-time.After(timeout) })
					calls := longest(callers, func() {
						ctx, cancel := context.WithTimeout(context.Background(), timeout)
						defer cancel()
						if _, err := s.Take(ctx, claims, nil); err == nil {
							t.Error("a decision of a server that has stopped")
						}
					})
					closest = min(closest, calls-timers)
				}
				if closest > within {
					t.Errorf("%d callers returned %v later than timers at least, want %v", callers, closest, within)
				}
			}
		})
	}
}

// longest returns how long the slowest of n goroutines took, each of which runs f.
func longest(n int, f func()) time.Duration {
	var wg sync.WaitGroup
	took := make([]time.Duration, n)
	for i := range n {
		wg.Go(func() {
			begun := time.Now()
			f()
			took[i] = time.Since(begun)
		})
	}
	wg.Wait()
	return slices.Max(took)
}
