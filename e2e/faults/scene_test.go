package faults

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
	"go.uber.org/goleak"
)

// A scene is a server, a proxy in front of it, and a client of the proxy.
type scene struct {
	testing.TB
	server *redistest.Server
	admin  *redis.Client // of the server
	direct core.Store    // on admin
	proxy  *redistest.Proxy
	client *redis.Client // of the proxy
	store  *redisstore.Store
	log    journal

	inFlight counter // commands of client
}

// A counter is a hook that counts a client's commands in flight, and wraps their errors, as hooks that trace do.
type counter struct {
	redistest.Hook
	atomic.Int64
}

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.Add(1)
		defer c.Add(-1)
		err := next(ctx, cmd)
		if err != nil {
			err = fmt.Errorf("redis: %s: %w", cmd.Name(), err)
			cmd.SetErr(err)
		}
		return err
	}
}

func newScene(t testing.TB, args ...string) *scene {
	wantNoLeaks(t)
	s := &scene{TB: t, log: journal{expect.KeepLog(t)}, server: redistest.Start(t, args...)}
	s.admin = s.server.Client(t)
	s.direct = redisstore.New(s.admin)
	s.proxy = redistest.StartProxy(t, s.server.Addr)
	s.client = s.connect(&redis.Options{Addr: s.proxy.Addr, ContextTimeoutEnabled: true})
	s.client.AddHook(&s.inFlight)
	s.store = redisstore.New(s.client)
	return s
}

// connect returns a client whose connections must have ended a while after it is closed, which is when the test ends.
func (s *scene) connect(o *redis.Options) *redis.Client {
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = time.Minute, time.Minute, time.Minute
	c := redis.NewClient(o)
	s.Cleanup(func() {
		// The client closes connections of calls that are late; the proxy notices a little later.
		redistest.Wait(s, "at most as many connections to be open as the pool has", func() bool { return s.proxy.Conns() <= 10*runtime.GOMAXPROCS(0) })
		c.Close()
		redistest.Wait(s, "the connections to end", func() bool { return s.proxy.Conns() == 0 })
	})
	return c
}

func (s *scene) do(args ...any) {
	s.Helper()
	if err := s.admin.Do(context.Background(), args...).Err(); err != nil {
		s.Fatalf("%v: %v", args, err)
	}
}

// await waits until the server answers a PING with PONG, or with an error of this code.
func (s *scene) await(answer string) {
	s.Helper()
	redistest.Wait(s, answer, func() bool {
		pong, err := s.admin.Ping(context.Background()).Result()
		return pong == answer || err != nil && strings.HasPrefix(err.Error(), answer)
	})
}

// wantNoLeaks fails the test if it leaves goroutines behind. Call it before anything that starts a goroutine.
func wantNoLeaks(t testing.TB) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		var err error
		for begun := time.Now(); time.Since(begun) < 10*time.Second; {
			if err = goleak.Find(before); err == nil {
				return
			}
		}
		t.Error(err)
	})
}

// A journal is what the default logger writes.
type journal struct{ *expect.Buffer }

// The lines of a breaker.
const (
	isDown = `level=WARN msg="spillgate: the store is unavailable`
	isBack = `level=INFO msg="spillgate: the store is back`
)

// turns returns all lines but the ones about overloads: on a busy machine, a call may be late because this process is.
func (j journal) turns() []string {
	return slices.DeleteFunc(strings.Split(j.String(), "\n"), func(line string) bool {
		return line == "" || strings.Contains(line, "spillgate: too many requests for the store at once")
	})
}

// count returns how many lines contain a text.
func (j journal) count(what string) (n int) {
	for line := range strings.Lines(j.String()) {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}

// wantTurns fails the test unless one limiter has logged that its store is down and that it is back, alternately and at most so
// often. A machine that stalls may add some.
func (j journal) wantTurns(t testing.TB, most int) {
	t.Helper()
	lines := j.turns()
	for i, line := range lines {
		want := [...]string{isDown, isBack}[i%2]
		expect.True(t, strings.Contains(line, want), "line %d is %q, want %q", i+1, line, want)
	}
	n := len(lines)
	expect.True(t, n != 0 && n <= 2*most, "%d lines for %d outages at most:\n%s", n, most, j)
}

// wantTransitions fails the test unless the log has exactly one line for each of n transitions in either direction.
func (j journal) wantTransitions(t testing.TB, n int) {
	t.Helper()
	if down, back := j.count(isDown), j.count(isBack); down != n || back != n || len(j.turns()) != 2*n {
		t.Errorf("want %d lines for each transition, got:\n%s", n, j)
	}
}
