package faults

import (
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
)

// during runs callers of g for a time, and for longer until enough reports true. It returns the largest number of goroutines
// in the meantime, and how many requests were admitted.
func during(d time.Duration, enough func() bool, g *guard, callers int, pause time.Duration) (goroutines, admitted int) {
	g.t.Helper()
	done := make(chan struct{})
	wait := g.callers(callers, pause, "k", done)
	end := time.Now().Add(d)
	redistest.Wait(g.t, "the callers to make enough requests", func() bool {
		goroutines = max(goroutines, runtime.NumGoroutine())
		return time.Now().After(end) && enough()
	})
	close(done)
	return goroutines, wait()
}

// If a server accepts connections and never replies, 500 callers wait for one deadline, but not for a second one.
func TestBlackHoleHoldsNobody(t *testing.T) {
	for mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t)
			g := newGuard(s, s.store, mode, slowly(100))
			g.comesBack("k")
			before, asked := runtime.NumGoroutine(), -int(g.seen.Load())
			s.proxy.Fault.Store(redistest.BlackHole)
			// A process that is late itself, on a busy machine, excuses the server for a second.
			_, first := during(0, func() bool { return g.StoreHealth().Down }, g, 500, 20*time.Millisecond)
			calls, begun, down := g.calls.takes.Load(), time.Now(), int(g.seen.Load())
			enough := func() bool { return int(g.seen.Load())-down >= 2000 }
			most, admitted := during(time.Second, enough, g, 500, 20*time.Millisecond)
			asked += int(g.seen.Load())
			admitted += first
			expect.AtMost(t, most-before, 4*500, "goroutines for 500 callers (3 each and a few of the client)")
			probes := 20 * (1 + int64(time.Since(begun)/time.Second))
			// The breaker opens after five failed round trips, and 500 callers share two or three.
			expect.AtMost(t, g.calls.takes.Load()-calls, 3*500+probes, "calls of the store for %d requests (three per caller at most, and a few probes)", asked)
			least := map[string]int{"local": 100, "open": 101, "closed": 0}[mode]     // the breaker opens meanwhile
			bound := map[string]int{"local": 100, "open": asked, "closed": 100}[mode] // where this process is late itself, its own limits decide
			expect.True(t, admitted >= least && admitted <= bound,
				"%d of %d requests were admitted, want %d to %d", admitted, asked, least, bound)
			redistest.Wait(t, "the breaker to withhold calls", func() bool { // not while it waits for a probe
				g.take("k")
				return g.StoreHealth().Down
			})
			expect.AtMost(t, g.StoreHealth().Calls, 20, "calls under way (few)")
			s.proxy.Fault.Store(redistest.NoFault)
			s.proxy.Cut() // otherwise calls in flight end with the timeout of the client, after a minute
			g.comesBack("k")
			g.wantBounded()
			s.log.wantTurns(t, 2)
		})
	}
}

func TestPoolThatIsExhausted(t *testing.T) {
	for mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t)
			store := redisstore.New(s.connect(&redis.Options{Addr: s.proxy.Addr, PoolSize: 1}))
			const deadline = 400 * time.Millisecond // so long that some replies arrive in time on a busy machine as well
			g := newGuard(s, store, mode, slowly(10), core.WithTimeout(deadline))
			g.comesBack("k")
			s.proxy.Fault.Store(redistest.Fault{Delay: 6 * deadline / 10})
			enough := func() bool { return g.degraded.Load() >= 5 && g.degraded.Load() < g.seen.Load() }
			_, admitted := during(3*time.Second, enough, g, 10, 40*time.Millisecond)
			if most := map[string]int{"local": 10 + 10, "open": int(g.seen.Load()), "closed": 10 + 10}[mode]; admitted > most { // calls that are not sent are an overload
				t.Errorf("%d requests were admitted, want at most %d", admitted, most)
			}
			s.proxy.Fault.Store(redistest.NoFault)
			g.comesBack("k")
			expect.Equal(t, s.proxy.Conns(), 1, "connections open")
			g.wantBounded()
		})
	}
}
