package processes

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// TestGrantWithoutRedis grants requests while Redis is killed, and while it is stopped. Both return an error, and all limits of the key get
// the same. An earlier grant is still there once Redis has read its data again.
func TestGrantWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	limits := []core.Limit{core.PerMonth(100).In("Europe/Berlin").From(15), core.PerYear(1000), core.PerHour(1000).Using(core.SlidingLog)}
	process := func() *core.Limiter {
		client := redistest.NewClient(t, &redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
		return core.Must(core.New([]core.Rule{{Name: "plan", Limits: limits, OnFailure: core.FailLocal}}, core.WithStore(redisstore.New(client)), core.WithTimeout(2*time.Second)))
	}
	l := process()
	used := func(l *core.Limiter) (all [3]int) {
		t.Helper()
		redistest.Wait(t, "a decision of Redis", func() bool {
			d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "user:ann", Peek: true})
			if err != nil || d.Degraded != nil {
				return false
			}
			for i, r := range d.Results {
				all[i] = r.Limit.Rate - r.Remaining
			}
			return true
		})
		return all
	}
	for range 60 {
		d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "user:ann"})
		must.True(t, err == nil && d.Allowed && d.Degraded == nil, "got %+v, %v", d, err)
	}
	must.Do(t, l.Grant(t.Context(), "plan", "user:ann", 50))
	server.Kill()
	expect.ErrorIs(t, l.Grant(t.Context(), "plan", "user:ann", 30), core.ErrUnavailable, "a grant without Redis (ErrUnavailable)")
	if d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "user:ann"}); err != nil || d.Degraded == nil || d.Results[0].Remaining != 99 {
		t.Errorf("without Redis: %+v, %v; want 99 of this process's own 100 left, without any grant", d, err)
	}
	server.Restart(t)
	want := [3]int{10, 10, 10}
	for _, one := range []*core.Limiter{l, process()} {
		expect.Equal(t, used(one), want, "count as used once Redis is back")
	}
	pause(t, server)
	expect.ErrorIs(t, l.Grant(t.Context(), "plan", "user:ann", 5), core.ErrUnavailable, "a grant while Redis is stopped (ErrUnavailable)")
	resume(t, server)
	if got := used(process()); got != want && got != [3]int{5, 5, 5} { // Redis may have read the call
		t.Errorf("%v count as used after a grant that Redis may have made, want all alike", got)
	}
}

// TestGrantsUnderLoad takes and grants in two processes' stores at once: exactly the rate and all grants are admitted.
func TestGrantsUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var limiters []*core.Limiter
	for range 2 {
		store := redisstore.New(server.Client(t), redisstore.WithDenyCache(0))
		rule := core.Rule{Name: "plan", Limits: []core.Limit{core.PerYear(100)}, OnFailure: core.FailClosed}
		limiters = append(limiters, core.Must(core.New([]core.Rule{rule}, core.WithStore(store), core.WithTimeout(longTimeout))))
	}
	var admitted atomic.Int64
	take := func(l *core.Limiter) bool {
		d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "user:ann"})
		expect.NoError(t, err, "Take")
		if d.Allowed {
			admitted.Add(1)
		}
		return d.Allowed
	}
	var all sync.WaitGroup
	for i := range 8 {
		l := limiters[i%2]
		all.Go(func() {
			for n := range 60 {
				take(l)
				if n%6 == i%6 {
					expect.NoError(t, l.Grant(t.Context(), "plan", "user:ann", 3), "Grant")
				}
			}
		})
	}
	all.Wait()
	for take(limiters[0]) {
	}
	expect.Equal(t, admitted.Load(), int64(100+8*10*3), "were admitted")
}
