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
	c := claimOf("k", core.MustParseLimits("1000/d, 1000/d;sliding-log")...)
	s := redisx.New(clientOf(t, server.Addr), options)
	take(t, s, c)
	for _, fault := range []struct {
		code  string
		begin []any
		end   []any
	}{
		{"OOM", []any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}},
		{"READONLY", []any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
		{"NOPERM", []any{"acl", "setuser", "default", "-evalsha", "-eval"}, []any{"acl", "setuser", "default", "+@all"}},
		{"", []any{"acl", "setuser", "default", "-get"}, []any{"acl", "setuser", "default", "+@all"}},
		{"", []any{"acl", "setuser", "default", "-zcard"}, []any{"acl", "setuser", "default", "+@all"}},
	} {
		if err := admin.Do(ctx, fault.begin...).Err(); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.Take(ctx, []core.Claim{c}, nil)
		if err == nil || errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), fault.code) {
			t.Errorf("%v: take gives %v", fault.begin, err)
		}
		if err := admin.Do(ctx, fault.end...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if s.Repaired() != 0 {
		t.Errorf("%d states repaired that were not corrupt", s.Repaired())
	}
	if r := take(t, s, c)[0]; r.Remaining != 998 {
		t.Errorf("%d remaining, want 998: the faults charged nothing", r.Remaining)
	}
}

// isMaster reports whether s has become a master.
func isMaster(c *redis.Client) func() bool {
	return func() bool { return strings.Contains(c.Info(context.Background(), "replication").Val(), "role:master") }
}

// comesBack takes until s decides, and returns how long that took and the results.
func comesBack(t *testing.T, s *redisx.Store, claims []core.Claim) (time.Duration, []core.Result) {
	t.Helper()
	begun := time.Now()
	var results []core.Result
	redistest.Wait(t, "Redis to decide again", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		var err error
		_, results, err = s.Take(ctx, claims, nil)
		return err == nil
	})
	return time.Since(begun), results
}

func TestANewMasterIsFoundSoon(t *testing.T) {
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "1000")
	s := redisx.New(cluster.Client(t), options)
	c := []core.Claim{claimOf("k", core.PerDay(1000))}
	take(t, s, c...)
	slot := int(cluster.Nodes[0].Client(t).ClusterKeySlot(context.Background(), "{k}").Val())
	owner := cluster.Owner(t, slot)
	replica := cluster.Nodes[owner+3].Client(t)
	cluster.Nodes[owner].Kill()
	stop := keepAsking(s, c)
	redistest.Wait(t, "the replica to take over", isMaster(replica))
	stop()
	if d, _ := comesBack(t, s, c); d > 2*time.Second {
		t.Errorf("the new master was found %v after it took over, want 2s", d)
	}
}

// keepAsking takes until stop is called.
func keepAsking(s *redisx.Store, claims []core.Claim) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			one, done := context.WithTimeout(ctx, 50*time.Millisecond)
			_, _, _ = s.Take(one, claims, nil)
			done()
			time.Sleep(time.Millisecond)
		}
	})
	return func() {
		cancel()
		asking.Wait()
	}
}

func TestSentinelFailover(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	s := redisx.New(sentinel.Client(t), options)
	c := []core.Claim{claimOf("k", core.Every(1000, 1000*24*time.Hour))}
	take(t, s, c...)
	replica := sentinel.Replica.Client(t)
	redistest.Wait(t, "the replica to have the key", func() bool {
		return replica.Exists(context.Background(), pairKey).Val() == 1
	})
	sentinel.Master.Kill()
	redistest.Wait(t, "the replica to take over", isMaster(replica))
	d, results := comesBack(t, s, c)
	if d > 3*time.Second {
		t.Errorf("the new master was found %v after it took over, want 3s", d)
	}
	if results[0].Remaining > 998 {
		t.Errorf("%d remaining, want 998 or less: what was charged before the failover counts", results[0].Remaining)
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
