package faults

import (
	"runtime"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
)

// While a server is down or restarts, few of 500 callers call it. The proxy counts a connection for each attempt, even while the
// server is down.
func TestHerd(t *testing.T) {
	for mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t)
			g := newGuard(s, s.store, mode, slowly(1_000_000))
			done := make(chan struct{})
			wait := g.callers(500, 400*time.Millisecond, "k", done)
			time.Sleep(300 * time.Millisecond)
			s.server.Kill()
			redistest.Wait(t, "the breaker to open", func() bool { return g.StoreHealth().Down })
			time.Sleep(300 * time.Millisecond)
			dials, calls, asked, begun := s.proxy.Dials(), g.calls.takes.Load(), g.seen.Load(), time.Now()
			time.Sleep(time.Second)
			redistest.Wait(t, "each of the herd to ask again", func() bool { return g.seen.Load()-asked >= 500 })
			seconds := 1 + int(time.Since(begun)/time.Second)
			expect.AtMost(t, g.calls.takes.Load()-calls, int64(10*seconds), "calls of a dead store in %d seconds (a probe per pause)", seconds)
			expect.AtMost(t, s.proxy.Dials()-dials, 100*seconds, "dials of a dead server in %d seconds (only a few probes)", seconds)
			dials = s.proxy.Dials()
			s.server.Restart(t)
			g.comesBack("k")
			time.Sleep(200 * time.Millisecond)
			expect.AtMost(t, s.proxy.Dials()-dials, 2*10*runtime.GOMAXPROCS(0)+20, "dials of a server that came back")
			close(done)
			wait()
			s.log.wantTurns(t, 4)
		})
	}
}

// A server goes down and comes back every 100ms. At most what the limit in Redis and the limit in this process each admit is
// admitted.
func TestFlapping(t *testing.T) {
	const capacity, perSecond, lasts = 50, 10, 3 * time.Second
	for mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t)
			g := newGuard(s, s.store, mode, core.PerSecond(perSecond).WithBurst(capacity))
			done := make(chan struct{})
			begun := time.Now()
			wait := g.callers(8, 5*time.Millisecond, "k", done)
			redistest.Wait(t, "enough decisions with the server and without", func() bool {
				time.Sleep(100 * time.Millisecond)
				s.proxy.Reject()
				time.Sleep(100 * time.Millisecond)
				s.proxy.Accept(t)
				degraded := g.degraded.Load()
				return time.Since(begun) >= lasts && degraded >= capacity && g.seen.Load()-degraded >= capacity
			})
			close(done)
			admitted, asked, degraded := wait(), int(g.seen.Load()), int(g.degraded.Load())
			one := capacity + int(perSecond*time.Since(begun).Seconds()) + 1 // what one store admits
			most := map[string]int{"local": 2 * one, "open": one + degraded, "closed": one + int(g.StoreHealth().Overloads)}[mode]
			expect.AtMost(t, admitted, most, "of %d requests were admitted", asked)
			expect.AtLeast(t, admitted, capacity, "of %d requests were admitted, %d were degraded", asked, degraded)
			g.comesBack("k")
			if s.log.count(isDown) > 0 { // the outages may have been too short for so many callers
				s.log.wantTurns(t, 15)
			}
			g.wantBounded()
		})
	}
}
