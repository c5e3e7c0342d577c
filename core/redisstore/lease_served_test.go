package redisstore_test

import (
	"context"
	"math/rand/v2"
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
