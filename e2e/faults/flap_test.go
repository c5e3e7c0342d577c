package faults

import (
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
)

// slownesses are ways in which an overloaded Redis is slow: how long it takes to answer, i steps after the overload began.
var slownesses = map[string]func(i int, h core.Health) time.Duration{
	"at the edge of the deadline": func(i int, _ core.Health) time.Duration {
		return deadline + time.Duration(i%9-4)*time.Millisecond
	},
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
