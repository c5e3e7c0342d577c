package redisstore_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/core/storetest"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/testpass"
	"github.com/spillgate/spillgate/keyfunc"
)

func TestStoreKeepsTheContract(t *testing.T) {
	testpass.Sequential(t)
	var s *miniredis.Miniredis
	var now time.Time
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T) core.Store {
			s, now = miniredis.RunT(t), time.Now()
			s.SetTime(now)
			client := redistest.NewClient(t, &redis.Options{Addr: s.Addr(), ReadTimeout: time.Minute}) // miniredis is slow under -race
			return redisstore.New(client, redisstore.WithPrefix("test:a"), redisstore.WithKeySecret(make([]byte, 16)))
		},
		Quick: true,
		Advance: func(d time.Duration) {
			now = now.Add(d)
			s.SetTime(now)
			s.FastForward(d)
		},
	})
}

func TestMistakesSurfaceInEveryCall(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	var noClient *redis.Client
	for want, s := range map[string]*redisstore.Store{
		"client is nil":                          redisstore.New(nil),
		"redisstore: client is nil":              redisstore.New(noClient),
		"option is nil":                          redisstore.New(client, nil),
		"prefix is empty":                        redisstore.New(client, redisstore.WithPrefix("")),
		`prefix "a{b" must be printable`:         redisstore.New(client, redisstore.WithPrefix("a{b")),
		`prefix "a}b" must be printable`:         redisstore.New(client, redisstore.WithPrefix("a}b")),
		`prefix "a\nb" must be printable`:        redisstore.New(client, redisstore.WithPrefix("a\nb")),
		`prefix "a b" must be printable`:         redisstore.New(client, redisstore.WithPrefix("a b")),
		`prefix "a\x7f" must be printable`:       redisstore.New(client, redisstore.WithPrefix("a\x7f")),
		"at least 16 bytes, got 15":              redisstore.New(client, redisstore.WithKeySecret(make([]byte, 15))),
		"must not be negative, got -1":           redisstore.New(client, redisstore.WithDenyCache(-1)),
		"must be at most 16777216, got 16777217": redisstore.New(client, redisstore.WithDenyCache(1<<24+1)),
		"leave the option out\nspillgate: inval": redisstore.New(client, redisstore.WithPrefix(""), redisstore.WithDenyCache(-1)),
	} {
		ctx := context.Background()
		results, take := s.Take(ctx, []core.Claim{{Key: "k", Limits: []core.Limit{core.PerMinute(1)}}}, make([]core.Result, 2))
		expect.Equal(t, len(results), 2, "%s: results (those given)", want)
		_, inNew := core.New([]core.Rule{core.PerMinute(1).By(nil)}, core.WithStore(s))
		for name, err := range map[string]error{
			"Validate": s.Validate(), "Take": take, "Settle": s.Settle(ctx, nil), "Reset": s.Reset(ctx, nil), "core.New": inNew,
		} {
			expect.True(t, errors.Is(err, core.ErrInvalid) && strings.Contains(err.Error(), want), "%s: error %q, want %q", name, err, want)
		}
		expect.Equal(t, s.Repaired(), 0, "%s: repaired", want)
	}
}

// Further requests of a denied client do not reach Redis, unless the cache is turned off.
func TestDenialsAreRememberedByDefault(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer client.Close()
	for name, row := range map[string]struct {
		opts []redisstore.Option
		want bool
	}{
		"by default":     {nil, true},
		"size 1":         {[]redisstore.Option{redisstore.WithDenyCache(1)}, true},
		"off, by size 0": {[]redisstore.Option{redisstore.WithDenyCache(0)}, false},
	} {
		s := redisstore.New(client, append(row.opts, redisstore.WithPrefix(strings.ReplaceAll(name, " ", "-")))...)
		claims := []core.Claim{{Rule: "r", Key: "k", Limits: []core.Limit{core.PerHour(1)}}}
		for i := range 2 {
			must.Equal(t, must.Get(s.Take(context.Background(), claims, nil))(t)[0].Allowed, i == 0, "%s: take %d", name, i)
		}
		results, ok := s.TakeLocal(claims, nil)
		if ok != row.want || ok && results[0].Allowed {
			t.Errorf("%s: TakeLocal gives %+v, %v, want a denial: %v", name, results, ok, row.want)
		}
	}
}

// Twice as many denials as the cache has slots leave a tenth of them empty, since two denials may share a slot.
func TestDenyCacheHas4096SlotsByDefault(t *testing.T) {
	testpass.Thorough(t)
	const slots, denials, lasts = 4096, 2 * 4096, 900 * time.Millisecond // a denial is remembered for a second
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), ReadTimeout: time.Minute})
	defer client.Close()
	s := redisstore.New(client)
	now := time.Now()
	s.SetClock(func() time.Time { return now })
	denied := func(i int) []core.Claim {
		return []core.Claim{{Rule: "r", Key: strconv.Itoa(i), Limits: []core.Limit{core.PerHour(0)}}}
	}
	asked := make([]time.Time, denials)
	var callers sync.WaitGroup
	const each = 8 // a batch that is too large exhausts the Lua of miniredis
	for first := range each {
		callers.Go(func() {
			for i := first; i < denials; i += each {
				asked[i] = time.Now()
				expect.NoError(t, expect.ErrorOf(s.Take(context.Background(), denied(i), nil)), "Take")
			}
		})
	}
	callers.Wait()
	remembered := 0
	for i := range denials {
		if _, ok := s.TakeLocal(denied(i), nil); ok {
			remembered++
		}
	}
	recent, counted := 0, time.Now()
	for _, at := range asked {
		if counted.Sub(at) < lasts {
			recent++
		}
	}
	filled := slots * (1 - math.Exp(-float64(recent)/slots)) // keys fall into slots at random
	if n := float64(remembered); n < 0.9*filled || n > slots {
		t.Errorf("%d of %d recent denials are remembered, want some %.0f and at most %d", remembered, recent, filled, slots)
	}
}

// A wrapped store is still the store that it wraps.
type wrapped struct{ *redisstore.Store }

// Stores over one client with one prefix are one store, whatever their other options are.
func TestStoresOverOneClientShareTheirLimits(t *testing.T) {
	client, cluster := redis.NewClient(&redis.Options{}), redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	second := redis.NewClient(&redis.Options{})
	for _, c := range []redis.UniversalClient{client, cluster, second} {
		t.Cleanup(func() { c.Close() })
	}
	secret, secret2 := []byte("sixteen bytes or more"), []byte("another sixteen bytes")
	prefix, hashed := redisstore.WithPrefix("shop"), redisstore.WithKeySecret(secret)
	for _, row := range []struct {
		why    string
		first  core.Store
		second core.Store
		shares bool
	}{
		{"one client", redisstore.New(client), redisstore.New(client), true},
		{"the default prefix", redisstore.New(client), redisstore.New(client, redisstore.WithPrefix("spillgate")), true},
		{"one prefix", redisstore.New(client, prefix), redisstore.New(client, prefix, redisstore.WithDenyCache(0)), true},
		{"a Cluster", redisstore.New(cluster), redisstore.New(cluster), true},
		{"one secret", redisstore.New(client, hashed), redisstore.New(client, hashed), true},
		{"a wrapped store", wrapped{redisstore.New(client)}, redisstore.New(client), true},
		{"two prefixes", redisstore.New(client), redisstore.New(client, prefix), false},
		{"two clients", redisstore.New(client), redisstore.New(second), false},
		{"a secret and none", redisstore.New(client), redisstore.New(client, hashed), false},
		{"two secrets", redisstore.New(client, redisstore.WithKeySecret(secret2)), redisstore.New(client, hashed), false},
	} {
		api, login := core.PerMinute(100).By(keyfunc.RemoteIP), core.PerMinute(5).By(keyfunc.RemoteIP)
		api.Name, login.Name = row.why, row.why // limiters of other rows may still count
		for _, with := range []func(core.Store) core.Option{core.WithStore, core.WithFallback} {
			first := core.Must(core.New([]core.Rule{api}, with(row.first)))
			if _, err := core.New([]core.Rule{login}, core.WithStore(row.second)); (err != nil) != row.shares ||
				row.shares && (!errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "a limiter with the same store has a rule of this name")) {
				t.Errorf("%s: %v, want a mistake: %v", row.why, err, row.shares)
			}
			runtime.KeepAlive(first)
		}
	}
}

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

// A limiter calls the store in the goroutine of the request, so each call must return in time. The client itself would wait for a minute.
func TestEachCallReturnsWhenItsContextIsDone(t *testing.T) {
	server := redistest.Start(t)
	client := redistest.NewClient(t, &redis.Options{Addr: server.Addr, ReadTimeout: time.Minute})
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
		expect.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, breaker.ErrTooMany),
			"%s: %v, want a deadline exceeded", name, err)
		d := time.Since(begun)
		expect.True(t, d >= 40*time.Millisecond && d <= 20*time.Second, "%s took %v with a deadline of 50ms", name, d)
		cancel()
	}
}

// Many callers wait for a stopped server. The last call returns at most 3ms later than the last of as many plain timers. On a
// busy machine both are late by chance, so the best of several rounds counts.
func TestCallersReturnAtTheDeadlineLikeTimers(t *testing.T) {
	testpass.Sequential(t) // the race detector makes callers much slower, and timers hardly
	const timeout, within, rounds = 50 * time.Millisecond, 3 * time.Millisecond, 40
	for name, inline := range map[string]bool{"default client": false, "ContextTimeoutEnabled": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			client := redistest.NewClient(t, &redis.Options{Addr: server.Addr, ReadTimeout: time.Minute, ContextTimeoutEnabled: inline})
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
						expect.Fails(t, expect.ErrorOf(s.Take(ctx, claims, nil)), "a decision of a server that has stopped")
					})
					closest = min(closest, calls-timers-(timers-timeout)) // on a busy machine, timers are late too
				}
				expect.AtMost(t, closest, within, "%d callers returned later than timers at least", callers)
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
