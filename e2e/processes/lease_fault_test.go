package processes

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// longTimeout is a timeout that a busy machine does not exceed.
const longTimeout = 5 * time.Second

func take(t *testing.T, l *core.Limiter) core.Decision {
	t.Helper()
	return must.Get(l.Take(context.Background(), claimAll()))(t)
}

// remaining returns how many requests of the one key remain.
func remaining(t *testing.T, l *core.Limiter) core.Result {
	t.Helper()
	c := claimAll()
	c.Peek = true
	return must.Get(l.Take(context.Background(), c))(t).Results[0]
}

// lease charges the one key until l decides from a lease.
func lease(t *testing.T, l *core.Limiter) {
	t.Helper()
	before := l.StoreHealth().Leases.Decisions
	redistest.Wait(t, "a decision from a lease", func() bool {
		for range 20 {
			take(t, l)
		}
		return l.StoreHealth().Leases.Decisions > before
	})
}

// TestLeaseEndsWithoutRedis stops Redis: the failure mode decides once the lease has ended.
func TestLeaseEndsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := (&leaser{Addrs: []string{server.Addr}, Limit: "100000/h", Lease: 300 * time.Millisecond, Timeout: longTimeout}).limiter()
	lease(t, l)
	pause(t, server)
	defer resume(t, server)
	time.Sleep(300 * time.Millisecond)
	d, err := l.Take(context.Background(), claimAll())
	// A process that lacks CPU cannot tell that the server has failed, and decides by itself, as in any overload.
	expect.True(t, errors.Is(err, core.ErrUnavailable) || d.Degraded != nil, "after the lease has ended: %+v, %v, want a failure of the store", d, err)
}

func pause(t *testing.T, s *redistest.Server) {
	t.Helper()
	must.Do(t, syscall.Kill(s.PID(), syscall.SIGSTOP))
}

func resume(t *testing.T, s *redistest.Server) {
	t.Helper()
	must.Do(t, syscall.Kill(s.PID(), syscall.SIGCONT))
}

// TestLeaseOfAKilledProcessDrains kills a process: the requests that it had leased count only until they have drained.
func TestLeaseOfAKilledProcessDrains(t *testing.T) {
	t.Parallel()
	c := &crew{t: t, leaser: leaser{Addrs: []string{redistest.Start(t).Addr}, Limit: "600/2s", Lease: time.Second, Demand: 250}}
	m := c.start()
	time.Sleep(time.Second)
	m.kill()
	c.leaser.Timeout = longTimeout
	l := c.leaser.limiter()
	left := remaining(t, l)
	expect.AtMost(t, left.ResetAfter, 2*time.Second, "the whole capacity is available after (2s at most)")
	time.Sleep(left.ResetAfter)
	expect.Equal(t, remaining(t, l).Remaining, 600, "remaining after %v", left.ResetAfter)
}

// TestResetReachesLeases resets a key that another process leases. One lease later, none of the leased requests count,
// and returning requests from before the reset has no effect.
func TestResetReachesLeases(t *testing.T) {
	t.Parallel()
	other := leaser{Addrs: []string{redistest.Start(t).Addr}, Limit: "1000/1000h", Lease: 500 * time.Millisecond, Timeout: longTimeout}
	a := other.limiter()
	other.Lease = 0
	b := other.limiter()
	lease(t, a)
	must.Do(t, b.Reset(context.Background(), "leased", claimAll().Key))
	for range 300 {
		take(t, b)
	}
	time.Sleep(1500 * time.Millisecond) // the lease ends, and its requests are returned another lease later
	expect.Equal(t, remaining(t, b).Remaining, 700, "remaining of 1000 after a reset and 300 requests")
	expect.Equal(t, take(t, a).Results[0].Remaining, 699, "remaining, as the other process says")
	lease(t, a)
	must.Do(t, b.Ban(context.Background(), "leased", claimAll().Key, time.Hour))
	for begun := time.Now(); time.Since(begun) < 500*time.Millisecond; time.Sleep(100 * time.Millisecond) { // one lease
		take(t, a) // it may be admitted
	}
	expect.True(t, !take(t, a).Allowed, "a lease after the other process has banned the key, a request is admitted")
}
