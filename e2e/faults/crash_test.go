package faults

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
)

// A Redis with 200 callers is killed and comes back with its state. No caller waits for the client, and no key gets more than the limits of
// the store and of this process together.
func TestKilledUnder200Callers(t *testing.T) {
	const capacity = 1000
	for mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t, "--appendonly", "yes", "--appendfsync", "no") // else a slow disk would keep it from writing before it replies
			g := newGuard(s, s.store, mode, slowly(capacity))
			done := make(chan struct{})
			wait := g.callers(200, 100*time.Millisecond, "k", done)
			redistest.Wait(t, "the callers to get going", func() bool { return g.seen.Load() > 400 })
			s.server.Kill()
			redistest.Wait(t, "500 degraded decisions in an outage", func() bool { return g.degraded.Load() >= 500 && g.StoreHealth().Down })
			s.server.Restart(t)
			g.comesBack("k")
			seen := g.seen.Load()
			redistest.Wait(t, "more decisions", func() bool { return g.seen.Load() > seen+200 })
			close(done)
			admitted := wait()
			byLocal := min(capacity, int(g.StoreHealth().Overloads)) // local limits decide an overload in each mode
			bound := map[string]int{"local": 2 * capacity, "open": capacity + int(g.degraded.Load()), "closed": capacity + byLocal}[mode]
			expect.True(t, admitted <= bound && admitted != 0,
				"%d requests were admitted, want some and at most %d", admitted, bound)
			expect.AtMost(t, used(t, s.direct, mode, "k", slowly(capacity)), capacity, "requests that Redis holds against the key")
			s.log.wantTurns(t, 4)
			g.wantBounded()
		})
	}
}
