package redisx_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// clientOf returns a client with the default options.
func clientOf(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { c.Close() })
	return c
}

func TestALostReplyIsNotAskedForAgain(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	s := redisx.New(clientOf(t, proxy.Addr), options)
	c := claimOf("k", core.PerHour(1000))
	take(t, s, c)
	proxy.Fault.Store(redistest.CutReplies)
	for range 5 {
		if _, _, err := s.Take(context.Background(), []core.Claim{c}, nil); err == nil || errors.Is(err, core.ErrInvalid) {
			t.Errorf("a lost reply gives %v, want a fault of the store", err)
		}
	}
	proxy.Fault.Store(redistest.NoFault)
	var r []core.Result
	redistest.Wait(t, "the pool to drop its connections", func() bool {
		var err error
		_, r, err = s.Take(context.Background(), []core.Claim{{Rule: "rule", Key: "k", Limits: c.Limits, Peek: true}}, nil)
		return err == nil
	})
	if r[0].Remaining != 1000-6 {
		t.Errorf("%d remaining after 6 requests, 5 of which lost their replies, want 994", r[0].Remaining)
	}
}

func TestADeadlineHoldsWithDefaultOptions(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	s := redisx.New(clientOf(t, proxy.Addr), options)
	c := []core.Claim{claimOf("k", core.PerHour(1000))}
	take(t, s, c...)
	proxy.Fault.Store(redistest.SwallowReplies)
	for name, f := range map[string]func(context.Context) error{
		"take":   func(ctx context.Context) error { _, _, err := s.Take(ctx, c, nil); return err },
		"refund": func(ctx context.Context) error { return s.Refund(ctx, c, time.Now()) },
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		begun := time.Now()
		if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want a deadline exceeded", name, err)
		}
		if d := time.Since(begun); d > 500*time.Millisecond {
			t.Errorf("%s took %v with a deadline of 50ms", name, d)
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := s.Take(ctx, c, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("take with a cancelled context: %v", err)
	}
}

func TestCallsThatNobodyWaitsForAreBounded(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	s := redisx.New(clientOf(t, proxy.Addr), options)
	c := []core.Claim{claimOf("k", core.PerHour(1000))}
	take(t, s, c...)
	proxy.Fault.Store(redistest.SwallowReplies)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for range 10_000 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, _, _ = s.Take(ctx, c, nil)
		})
	}
	wg.Wait()
	if n := runtime.NumGoroutine() - before; n > 5000 {
		t.Errorf("%d goroutines are left of 10,000 calls, want at most 4,096 and a few", n)
	}
}

func TestErrorsOfTheServerAreFaultsOfTheStore(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	ctx := context.Background()
	c := claimOf("k", core.PerHour(1000))
	s := redisx.New(clientOf(t, server.Addr), options)
	take(t, s, c)
	for code, args := range map[string][2][]any{
		"OOM":      {{"config", "set", "maxmemory", "1"}, {"config", "set", "maxmemory", "0"}},
		"READONLY": {{"replicaof", "127.0.0.1", "1"}, {"replicaof", "no", "one"}},
		"NOPERM":   {{"acl", "setuser", "default", "-evalsha", "-eval"}, {"acl", "setuser", "default", "+@all"}},
	} {
		if err := admin.Do(ctx, args[0]...).Err(); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.Take(ctx, []core.Claim{c}, nil)
		if err == nil || errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: take gives %v", code, err)
		}
		if err := admin.Do(ctx, args[1]...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if r := take(t, s, c)[0]; r.Remaining != 998 {
		t.Errorf("%d remaining, want 998: the faults charged nothing", r.Remaining)
	}
}

func TestAMasterThatDiesIsReplaced(t *testing.T) {
	cluster := redistest.StartCluster(t)
	s := redisx.New(cluster.Client(t), options)
	c := []core.Claim{claimOf("k", core.PerHour(1000))}
	take(t, s, c...)
	slot := int(cluster.Nodes[0].Client(t).ClusterKeySlot(context.Background(), "{k}").Val())
	cluster.Nodes[cluster.Owner(t, slot)].Kill()
	begun := time.Now()
	redistest.Wait(t, "Redis to decide again", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, _, err := s.Take(ctx, c, nil)
		return err == nil
	})
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("Redis was back after %v, want 5s", d)
	}
}

func TestSentinelFailover(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	s := redisx.New(sentinel.Client(t), options)
	c := []core.Claim{claimOf("k", core.PerHour(1000))}
	take(t, s, c...)
	replica := sentinel.Replica.Client(t)
	redistest.Wait(t, "the replica to have the key", func() bool {
		return replica.Exists(context.Background(), pairKey).Val() == 1
	})
	sentinel.Master.Kill()
	begun := time.Now()
	var r []core.Result
	redistest.Wait(t, "Redis to decide again", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		var err error
		_, r, err = s.Take(ctx, c, nil)
		return err == nil
	})
	if d := time.Since(begun); d > 4*time.Second {
		t.Errorf("Redis was back after %v, want 4s", d)
	}
	if r[0].Remaining > 998 {
		t.Errorf("%d remaining, want 998 or less: what was charged before the failover counts", r[0].Remaining)
	}
}

func TestARingDecidesEachIdentityOnItsShard(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": redistest.Start(t).Addr, "b": redistest.Start(t).Addr}})
	t.Cleanup(func() { ring.Close() })
	s := redisx.New(ring, options)
	decidesApart(t, s)
}

func TestAClusterDecidesEachSlotOnItsNode(t *testing.T) {
	client := redistest.StartCluster(t).Client(t)
	decidesApart(t, redisx.New(client, options))
	flush(t, client)
	decidesApart(t, redisx.New(struct{ *redis.ClusterClient }{client}, options))
}

// decidesApart checks requests of several identities.
func decidesApart(t *testing.T, s *redisx.Store) {
	t.Helper()
	limits := everyAlgorithm(5, time.Hour)
	var claims []core.Claim
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		claims = append(claims, claimOf(key, limits...))
	}
	ctx := context.Background()
	at, results, err := s.Take(ctx, claims, nil)
	if err != nil || !allowed(results) {
		t.Fatalf("%+v, %v", results, err)
	}
	claims[3].Cost = 5
	for range 2 {
		for i, r := range take(t, s, claims...) {
			if r.Remaining != 4 || r.Allowed != (i/4 != 3) {
				t.Errorf("result %d of a denied request: %+v, want 4 remaining", i, r)
			}
		}
	}
	claims[3].Cost, claims[4].DryRun, claims[5].Peek = 1, true, true
	claims[4].Cost = 5
	for i, r := range take(t, s, claims...) {
		want := 3
		if i/4 >= 4 { // a dry run that does not fit, and a peek
			want = 4
		}
		if r.Remaining != want || r.Allowed != (i/4 != 4) {
			t.Errorf("result %d: %+v, want %d remaining", i, r, want)
		}
	}
	claims[4].Cost, claims[3].Cost = 4, 5
	if r := take(t, s, claims...); r[16].Remaining != 4 {
		t.Errorf("a dry run of a denied request leaves %+v, want 4 remaining", r[16])
	}
	claims[4], claims[5], claims[3].Cost = claimOf("e", limits...), claimOf("f", limits...), 1
	if err := s.Refund(ctx, claims, at); err != nil {
		t.Fatal(err)
	}
	for i, r := range take(t, s, claims...) {
		want := 3
		if i/4 >= 4 {
			want = 4
		}
		if r.Remaining != want {
			t.Errorf("result %d after a refund: %+v, want %d remaining", i, r, want)
		}
	}
}

func TestAnAllkeysPolicyIsWarnedAboutOnce(t *testing.T) {
	var log lockedBuffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	s := redisx.New(redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Client(t), options)
	for range 3 {
		take(t, s, claimOf("k", core.PerMinute(5)))
	}
	redistest.Wait(t, "the warning", func() bool { return strings.Contains(log.String(), "maxmemory-policy=allkeys-lru") })
	take(t, s, claimOf("k", core.PerMinute(5)))
	if n := strings.Count(log.String(), "WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log.String())
	}
}

// A lockedBuffer is a buffer that several goroutines may use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
