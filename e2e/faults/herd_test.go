package faults

import (
	"runtime"
	"sync"
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
			dials, begun = s.proxy.Dials(), time.Now()
			s.server.Restart(t)
			g.comesBack("k")
			time.Sleep(200 * time.Millisecond)
			seconds = 1 + int(time.Since(begun)/time.Second) // on a busy machine, calls miss their deadlines and cost their connections
			expect.AtMost(t, s.proxy.Dials()-dials, (2*10*runtime.GOMAXPROCS(0)+20)*seconds, "dials of a server that came back, in %d seconds", seconds)
			close(done)
			wait()
			s.log.wantTurns(t, 4)
		})
	}
}

// A server goes down and comes back every 100ms. At most what the limit in Redis and the limit in this process each admit is admitted.
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

// slownesses are ways in which an overloaded Redis is slow: how long it takes to answer, i steps after the overload began.
var slownesses = map[string]func(i int, h core.Health) time.Duration{
	"at the edge of the deadline": func(i int, _ core.Health) time.Duration { return deadline + time.Duration(i%9-4)*time.Millisecond },
	"until it is down": func(_ int, h core.Health) time.Duration {
		if h.Down {
			return 0
		}
		return deadline
	},
	"with all calls only": func(_ int, h core.Health) time.Duration {
		if h.Calls <= 32 {
			return time.Millisecond
		}
		return deadline
	},
}

// If a Redis replies in time and then does not, again and again, the breaker does not open and close many times a second: from
// the fourth outage on, each lasts for at least a quarter of a second. The log has one line for the first outage.
func TestBreakerDoesNotFlap(t *testing.T) {
	const lasts, step = 5 * time.Second, 5 * time.Millisecond
	for name, slowness := range slownesses {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			g := newGuard(s, s.store, "local", slowly(1_000_000))
			g.comesBack("k")
			done := make(chan struct{})
			wait := g.callers(64, 2*time.Millisecond, "k", done)
			var watching sync.WaitGroup
			outages := 0
			watching.Go(func() { outages = g.outages(done) })
			begun, i := time.Now(), 0
			redistest.Wait(t, "an outage, for five seconds at least", func() bool {
				for range 4 {
					s.proxy.Fault.Store(redistest.Fault{Delay: slowness(i, g.StoreHealth())})
					time.Sleep(step)
					i++
				}
				return time.Since(begun) >= lasts && s.log.count(isDown) > 0
			})
			s.proxy.Fault.Store(redistest.NoFault)
			close(done)
			wait()
			watching.Wait()
			took := time.Since(begun)
			most := 4 + int(took/(250*time.Millisecond))
			expect.True(t, outages != 0 && outages <= most, "%d outages in %v, want one to %d", outages, took, most)
			g.comesBack("k")
			s.log.wantTurns(t, 1+int(time.Since(begun)/(10*time.Second)))
		})
	}
}

// outages returns how often the store of g went out of service until the channel is closed. Health tells two instants of an
// outage: when it began, and the first success after that.
func (g *guard) outages(until <-chan struct{}) int {
	var last time.Time
	for instants := 0; ; {
		select {
		case <-until:
			return (instants + 1) / 2
		case <-time.After(time.Millisecond):
		}
		if h := g.StoreHealth(); h.Down && h.Since != last {
			last = h.Since
			instants++
		}
	}
}
