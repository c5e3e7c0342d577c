package faults

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
)

// TestRedisDiesWhileRequestsWait kills Redis while 1,000 requests wait for their turn: all go on at their instants, and
// new requests book in memory.
func TestRedisDiesWhileRequestsWait(t *testing.T) {
	const n = 1000
	s := newScene(t)
	var booked atomic.Int64
	l := core.Must(core.New([]core.Rule{{
		Name: "waiting", Limits: []core.Limit{core.PerSecond(n).WithBurst(1)}, MaxWait: time.Minute,
	}}, core.WithStore(s.store), core.WithTimeout(wire.Timeout), core.WithObserver(func(_ context.Context, o *core.Observation) {
		if o.Allowed && o.Degraded == nil {
			booked.Add(1)
		}
	})))
	claim := core.Claim{Rule: "waiting", Key: "const:all"}
	if err := l.Ban(t.Context(), claim.Rule, claim.Key, 3*time.Second); err != nil { // so that all still wait when Redis dies
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			d, err := l.Wait(t.Context(), claim)
			expect.True(t, err == nil && d.Allowed && d.Degraded == nil && !time.Now().Before(d.At.Add(d.Wait)),
				"%v at %v: allowed %t, degraded %v, its turn is %v", err, time.Now(), d.Allowed, d.Degraded, d.At.Add(d.Wait))
		})
	}
	redistest.Wait(t, "all requests to be booked", func() bool { return booked.Load() == n })
	s.server.Kill()
	local, err := l.Wait(t.Context(), core.Claim{Rule: "waiting", Key: "const:other"})
	expect.True(t, err == nil && local.Allowed && local.Degraded != nil && local.Wait == 0, "without Redis: %+v, %v", local, err)
	all.Wait()
}
