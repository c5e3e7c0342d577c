package redisx_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

func TestLostReplyIsNotRetried(t *testing.T) {
	for kind, newClient := range map[string]func(addr string) redis.UniversalClient{
		"client": func(addr string) redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: addr}) },
		"client that retries": func(addr string) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 9})
		},
		"Cluster": func(addr string) redis.UniversalClient {
			all := []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}
			return redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return all, nil }})
		},
		"Ring": func(addr string) redis.UniversalClient {
			return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"shard": addr}})
		},
	} {
		t.Run(kind, func(t *testing.T) { loseReplies(t, newClient) })
	}
}

func loseReplies(t *testing.T, newClient func(addr string) redis.UniversalClient) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := newClient(proxy.Addr)
	defer client.Close()
	s := redisx.New(client, options)
	c := claimOf("k", core.PerDay(1000))
	take(t, s, c)
	proxy.Fault.Store(redistest.CutReplies)
	for range 5 {
		_, err := s.Take(context.Background(), []core.Claim{c}, nil)
		expect.True(t, err != nil && !errors.Is(err, core.ErrInvalid), "a lost reply gives %v, want an error of the server", err)
	}
	proxy.Fault.Store(redistest.NoFault)
	var r []core.Result
	redistest.Wait(t, "the pool to drop its connections", func() bool {
		var err error
		r, err = s.Take(context.Background(), []core.Claim{{Rule: "rule", Key: "k", Limits: c.Limits, Peek: true}}, nil)
		return err == nil
	})
	expect.Equal(t, r[0].Remaining, 1000-6, "remaining after 6 requests, 5 of which lost their replies")
}

// go-redis ignores the deadline of a context by default: it would wait for its ReadTimeout, a minute.
func TestDeadlineHoldsWithDefaultOptions(t *testing.T) {
	s, _, one := silentServer(t)
	c := []core.Claim{one}
	for name, f := range map[string]func(context.Context) error{
		"take":   func(ctx context.Context) error { _, err := s.Take(ctx, c, nil); return err },
		"refund": func(ctx context.Context) error { return s.Settle(ctx, settledAt(time.Now(), c...)) },
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		begun := time.Now()
		expect.ErrorIs(t, f(ctx), context.DeadlineExceeded, "%s (a deadline exceeded)", name)
		expect.AtMost(t, time.Since(begun), 20*time.Second, "%s took with a deadline of 50ms", name)
		cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	expect.ErrorIs(t, expect.ErrorOf(s.Take(ctx, c, nil)), context.Canceled, "take with a cancelled context")
}

func TestAbandonedCallsAreBounded(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	s := redisx.New(redistest.NewClient(t, &redis.Options{Addr: proxy.Addr}), options)
	c := []core.Claim{claimOf("k", core.PerHour(1000))}
	take(t, s, c...)
	proxy.Fault.Store(redistest.SwallowReplies)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for range 10_000 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, _ = s.Take(ctx, c, nil)
		})
	}
	wg.Wait()
	expect.AtMost(t, runtime.NumGoroutine()-before, 5000, "goroutines left of 10,000 calls (at most 4,096 and a few)")
}

func TestErrorOfTheServerIsNotErrInvalid(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	ctx := context.Background()
	c := claimOf("k", core.MustParseLimits("1000/d")...)
	s := redisx.New(redistest.NewClient(t, &redis.Options{Addr: server.Addr}), options)
	take(t, s, c)
	for _, fault := range []struct {
		code       string
		begin, end []any
	}{
		{"OOM", []any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}},
		{"READONLY", []any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
		{"NOPERM", []any{"acl", "setuser", "default", "-fcall", "-evalsha", "-eval"}, []any{"acl", "setuser", "default", "+@all"}},
		{"", []any{"acl", "setuser", "default", "-hget", "-hmget"}, []any{"acl", "setuser", "default", "+@all"}},
		{"", []any{"acl", "setuser", "default", "-hset"}, []any{"acl", "setuser", "default", "+@all"}},
	} {
		must.Do(t, admin.Do(ctx, fault.begin...).Err())
		_, err := s.Take(ctx, []core.Claim{c}, nil)
		expect.True(t, err != nil && !errors.Is(err, core.ErrInvalid) && strings.Contains(err.Error(), fault.code),
			"%v: take gives %v", fault.begin, err)
		must.Do(t, admin.Do(ctx, fault.end...).Err())
	}
	expect.Equal(t, s.Repaired(), 0, "states repaired that were not corrupt")
	expect.Equal(t, take(t, s, c)[0].Remaining, 998, "remaining (the faults charged nothing)")
}

// commandName matches the command in a line of MONITOR, if a client sent it.
var commandName = regexp.MustCompile(`\[\d+ [^l][^\]]*\] "(\w+)"`)

// sentTo returns the names of the commands that clients send to a server while f runs.
func sentTo(t *testing.T, client *redis.Client, f func()) (names []string) {
	t.Helper()
	monitor := watch(t, client.Options().Addr)
	f()
	client.Do(context.Background(), "echo", "end")
	for line := range monitor {
		if strings.Contains(line, `"echo"`) {
			return names
		}
		if m := commandName.FindStringSubmatch(strings.ToLower(line)); m != nil && m[1] != "hello" && m[1] != "client" && m[1] != "info" && m[1] != "time" {
			names = append(names, m[1])
		}
	}
	return names
}

// A server that has lost the library has not executed the call. The store loads the library and sends this call again, and no other call.
func TestFlushedLibraryIsLoadedAgain(t *testing.T) {
	s, client := started(t)
	ctx := context.Background()
	c := claimOf("k", core.PerDay(1000))
	take(t, s, c)
	for range 3 {
		client.FunctionFlush(ctx)
		expect.Elements(t, sentTo(t, client, func() { take(t, s, c) }), []string{"fcall", "function", "fcall"}, "sent")
	}
	var callers sync.WaitGroup
	const each, flushes = 50, 20
	for range 4 {
		callers.Go(func() {
			for range each {
				take(t, s, c)
			}
		})
	}
	for range flushes {
		client.FunctionFlush(ctx)
	}
	callers.Wait()
	c.Peek = true
	expect.Equal(t, take(t, s, c)[0].Remaining, 1000-1-3-4*each, "remaining of 1000 after %d requests", 1+3+4*each)
}

// During a rolling upgrade, processes of two versions decide by the same states, and neither removes the library of the other.
func TestTwoVersionsOfTheLibraryShareAServer(t *testing.T) {
	s, client := started(t)
	c := claimOf("k", core.MustParseLimits("9/d, 9/d;fixed-window, 9/h;sliding-log")...)
	for i := range 9 {
		if i%2 == 0 {
			s.SetVersion("")
		} else {
			s.SetVersion("2")
		}
		for _, r := range take(t, s, c) {
			expect.True(t, r.Allowed && r.Remaining == 8-i, "request %d: %+v, want %d to remain", i, r, 8-i)
		}
	}
	expect.Equal(t, len(client.FunctionList(context.Background(), redis.FunctionListQuery{}).Val()), 2, "libraries for two versions")
	expect.Equal(t, calls(t, client, "function|load"), 2, "libraries loaded (one for each version)")
}

// The store of a user that may not load functions runs the script and no longer tries functions. If another user has loaded the
// library, the store calls it.
func TestUserWithoutTheRightToLoadFunctionsRunsTheScript(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	ctx := context.Background()
	must.Do(t, admin.Do(ctx, "acl", "setuser", "app", "on", ">secret", "~*", "+@all", "-function").Err())
	client := redistest.NewClient(t, &redis.Options{Addr: server.Addr, Username: "app", Password: "secret"})
	c := claimOf("k", core.PerDay(10))
	for i, row := range []struct {
		why   string
		begin func()
		want  []string
	}{
		{"nobody has loaded the library", func() {}, []string{"fcall", "function", "evalsha", "eval", "evalsha", "evalsha"}},
		{"a server that knows the script", func() {}, []string{"fcall", "function", "evalsha", "evalsha", "evalsha"}},
		{"the library is there", func() { take(t, redisx.New(admin, options), c) }, []string{"fcall", "fcall", "fcall", "fcall"}}, // the first decides nothing
	} {
		row.begin()
		s := redisx.New(client, options)
		var last core.Result
		sent := sentTo(t, admin, func() {
			for range 3 {
				last = take(t, s, c)[0]
			}
		})
		// MONITOR does not show a command that the user may not run.
		want := slices.DeleteFunc(slices.Clone(row.want), func(name string) bool { return name == "function" })
		expect.Elements(t, sent, want, "%s: sent", row.why)
		expect.Equal(t, last.Remaining, 10-3*(i+1)-i/2, "%s: remaining", row.why)
	}
}

// A master that joined a Cluster, or replaced another one, has no library. The store loads it there when it first needs it.
func TestClusterNodeWithoutTheLibraryGetsIt(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	ctx := context.Background()
	s := redisx.New(cluster.Client(t), options)
	charge := func(want int) {
		t.Helper()
		for i := range 30 {
			expect.Equal(t, take(t, s, claimOf(fmt.Sprint(i), core.PerDay(9)))[0].Remaining, want, "key %d: remaining", i)
		}
	}
	charge(8)
	for i, n := range cluster.Nodes[:3] {
		client := n.Client(t)
		client.FunctionFlush(ctx)
		charge(7 - i)
		expect.Equal(t, len(client.FunctionList(ctx, redis.FunctionListQuery{}).Val()), 1, "node %d has libraries", i)
	}
}

// A Ring notices within seconds that a shard is down. Until then, the other shards get the library and decide.
func TestShardThatIsDownKeepsNoOtherFromTheLibrary(t *testing.T) {
	t.Parallel()
	for live, down := range map[string]string{"a": "b", "b": "a"} {
		ring := redis.NewRing(&redis.RingOptions{
			Addrs: map[string]string{live: redistest.Start(t).Addr, down: redistest.FreeAddr(t)}, HeartbeatFrequency: time.Hour, MaxRetries: -1,
		})
		defer ring.Close()
		s, decided := redisx.New(ring, options), 0
		for i := range 6 {
			key := fmt.Sprint(i)
			_, err := s.Take(t.Context(), []core.Claim{claimOf(key, core.PerDay(9))}, nil)
			isLive := errors.Is(ring.Get(t.Context(), "{"+key+"}").Err(), redis.Nil)
			expect.Equal(t, err == nil, isLive, "key %s is decided, on a shard that is up; %v", key, err)
			if isLive {
				decided++
			}
		}
		expect.True(t, decided > 0 && decided < 6, "%d of 6 keys are on shard %s", decided, live)
	}
}
