package redisstore_test

import (
	"context"
	"math/rand/v2"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
)

// A process leases the one key of a limit until it is killed.
type process struct {
	limiter *core.Limiter
	client  *redis.Client
	killed  atomic.Bool
}

func newProcess(t *testing.T, server *redistest.Server, limit string, lease time.Duration) *process {
	p := &process{client: redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: time.Minute, PoolSize: redistest.BubblePool, MaxRetries: -1})}
	redistest.CloseInBubble(t, p.client)
	s := redisstore.New(p.client)
	s.SetClock(time.Now)
	rule := core.Rule{Name: "leased", Key: keyfunc.Const("all"), Limits: core.MustParseLimits(limit), Lease: lease, OnFailure: core.FailClosed}
	p.limiter = core.Must(core.New([]core.Rule{rule}, core.WithStore(s)))
	return p
}

// kill stops all calls of p to the server, so that p returns nothing that it leases.
func (p *process) kill() {
	p.killed.Store(true)
	p.client.Close()
}

// demand asks so many times per second until p is killed, and adds what is admitted.
func (p *process) demand(perSecond int, admitted *atomic.Int64) {
	for !p.killed.Load() {
		time.Sleep(time.Second / time.Duration(perSecond))
		if d, err := p.limiter.Take(context.Background(), core.Claim{Rule: "leased", Key: "const:all"}); err == nil && d.Allowed {
			admitted.Add(1)
		}
	}
}

// TestLeasesServeTheLimit has eight processes ask for twice a limit, and kills one now and then. They get the limit,
// which includes what a killed process leased: at least 0.95 of it.
func TestLeasesServeTheLimit(t *testing.T) {
	const lasts = 5 * time.Second
	server := redistest.Start(t, redistest.KeepKeys...)
	synctest.Test(t, func(t *testing.T) {
		var admitted atomic.Int64
		var asking sync.WaitGroup
		start := func() *process {
			p := newProcess(t, server, "1000/s;burst=500", 100*time.Millisecond)
			asking.Go(func() { p.demand(250, &admitted) })
			return p
		}
		var all [8]*process
		for i := range all {
			all[i] = start()
		}
		random, begun := rand.New(rand.NewPCG(18, 8)), time.Now()
		for time.Since(begun) < lasts {
			time.Sleep(time.Duration(200+random.IntN(1200)) * time.Millisecond)
			i := random.IntN(len(all))
			all[i].kill()
			all[i] = start()
		}
		passed := time.Since(begun).Seconds()
		for _, p := range all {
			p.killed.Store(true)
		}
		asking.Wait()
		redistest.Wait(t, "the leases to end", func() bool {
			for _, p := range all {
				if p.limiter.StoreHealth().Leases.Keys > 0 {
					return false
				}
			}
			return true
		})
		share := float64(admitted.Load()-500) / (1000 * passed)
		t.Logf("served %.3f of the limit", share)
		if share < 0.95 || share > 1.02 {
			t.Errorf("served %.3f of the limit, want 0.95 to 1", share)
		}
	})
}

// TestHoldsOfAKilledProcess kills a process that holds 20 places. They stay taken for a minute, and are all free after 66 s.
func TestHoldsOfAKilledProcess(t *testing.T) {
	server := redistest.Start(t, redistest.KeepKeys...)
	synctest.Test(t, func(t *testing.T) {
		doomed, other := newProcess(t, server, "20 at once", 0), newProcess(t, server, "20 at once", 0)
		c := core.Claim{Rule: "leased", Key: "const:all", Hold: true}
		for range 20 {
			if d, err := doomed.limiter.Take(t.Context(), c); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		doomed.kill()
		begun, admitted := time.Now(), 0
		for ; time.Since(begun) <= 66*time.Second; time.Sleep(300 * time.Millisecond) {
			d, err := other.limiter.Take(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				if admitted++; time.Since(begun) < time.Minute {
					t.Fatalf("a request was admitted after %v", time.Since(begun))
				}
			}
		}
		for ; admitted < 20; admitted++ {
			if d, err := other.limiter.Take(t.Context(), c); err != nil || !d.Allowed {
				t.Errorf("request %d: %+v, %v", admitted+1, d, err)
			}
		}
		if d, err := other.limiter.Take(t.Context(), c); err != nil || d.Allowed {
			t.Errorf("a request more than 20: %+v, %v", d, err)
		}
	})
}

// TestLongRequestKeepsItsPlace checks that a request that runs for longer than a hold lasts keeps its place, and
// releases it at its end.
func TestLongRequestKeepsItsPlace(t *testing.T) {
	server := redistest.Start(t, redistest.KeepKeys...)
	synctest.Test(t, func(t *testing.T) {
		one, other := newProcess(t, server, "1 at once", 0), newProcess(t, server, "1 at once", 0)
		const lasts = 150 * time.Second
		r := httptest.NewRequest("GET", "/", nil)
		g, err := one.limiter.Guard(r.Context(), r, nil)
		if err != nil || !g.Admitted() {
			t.Fatalf("%+v, %v", g.Decision(), err)
		}
		asks := func() bool {
			d, err := other.limiter.Take(t.Context(), core.Claim{Rule: "leased", Key: "const:all", Hold: true})
			if err != nil {
				t.Fatal(err)
			}
			return d.Allowed
		}
		for begun := time.Now(); time.Since(begun) < lasts; time.Sleep(300 * time.Millisecond) {
			if asks() {
				t.Fatalf("a second request was admitted after %v", time.Since(begun))
			}
		}
		g.Settle(core.Outcome{Status: 200})
		g.End()
		if !asks() {
			t.Error("the place is still taken after the end of the request")
		}
	})
}
