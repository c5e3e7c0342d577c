package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
)

const msec = time.Millisecond

// A leaseCase is what several processes ask for with one key.
type leaseCase struct {
	tiers  []string        // a request has the limits of one; they hardly drain while the test runs
	leases []time.Duration // a request has one
	opts   []redisstore.Option

	// The tiers have several rates: what is returned after a request at another rate may stay charged. No request is refunded.
	rates bool
}

var leaseCases = map[string]leaseCase{
	"a bucket":                     {tiers: []string{"1000000/1000h"}, leases: []time.Duration{20 * msec}},
	"a window, a very short lease": {tiers: []string{"1000000/1000d;fixed-window"}, leases: []time.Duration{msec}},
	"near the limit":               {tiers: []string{"300/1000h"}, leases: []time.Duration{20 * msec}},
	"two limits, a deny cache, a secret": {
		tiers: []string{"1000000/1000h, 2000/1000d;fixed-window"}, leases: []time.Duration{300 * msec},
		opts: []redisstore.Option{redisstore.WithDenyCache(100), redisstore.WithKeySecret([]byte("0123456789abcdef0123456789abcdef"))},
	},
	"tiers that flip": {
		tiers: []string{"1000000/1000h", "900000/1000h", "900000/1000h;burst=950000"}, leases: []time.Duration{50 * msec}, rates: true,
	},
	"leases that flip": {tiers: []string{"1000000/1000h"}, leases: []time.Duration{0, msec, 20 * msec, 500 * msec}},
	"a tier that cannot be leased": {
		tiers: []string{"1000000/1000h", "1000000/1000h, 900/1000d;sliding-log"}, leases: []time.Duration{50 * msec},
	},
}

// TestLeasesLoseNothing has processes lease a key while requests are denied elsewhere, refunded and peeked. In the end Redis has
// charged what was admitted, plus at most what rounding adds when refunds and rates meet.
func TestLeasesLoseNothing(t *testing.T) {
	for name, c := range leaseCases {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			synctest.Test(t, func(t *testing.T) { loseNothing(t, server, c) })
		})
	}
}

// loseNothing plays c and checks what is charged in the end. Time passes only while all players sleep.
func loseNothing(t *testing.T, server *redistest.Server, c leaseCase) {
	p := newPlayers(t, server, c)
	var all sync.WaitGroup
	end := time.Now().Add(300 * msec)
	for i := range 12 {
		all.Go(func() { p.play(t, p.limiters[i%len(p.limiters)], rand.New(rand.NewPCG(uint64(i), 18)), end) })
	}
	all.Wait()
	redistest.Wait(t, "all leases to end", func() bool { return p.stats().Keys == 0 })
	time.Sleep(time.Second) // until all unused requests are returned
	used, charged := p.used.Load(), p.charged(t)
	t.Logf("%d were used, %d are charged, %+v", used, charged, p.stats())
	if charged < used-1 || charged > p.most() || p.stats().Decisions == 0 && len(c.tiers) == 1 {
		t.Errorf("%d were used and %d are charged; %+v", used, charged, p.stats())
	}
}

// players are limiters with stores of their own, as processes have them.
type players struct {
	leaseCase
	limiters []*core.Limiter
	used     atomic.Int64
}

func newPlayers(t *testing.T, server *redistest.Server, c leaseCase) *players {
	p := &players{leaseCase: c}
	other := core.Every(200, 1000*time.Hour).By(keyfunc.Const("all"))
	other.Name = "other"
	for range 3 {
		s := inBubble(t, server, c.opts...)
		p.limiters = append(p.limiters, core.Must(core.New([]core.Rule{other}, core.WithStore(s), core.WithTimeout(10*time.Second))))
	}
	return p
}

// most returns how many requests may be charged in the end.
func (p *players) most() int64 {
	used := p.used.Load()
	if p.rates {
		return used + 2 + int64(p.stats().Returned)
	}
	return used + used/500 + 2
}

// stats returns what the processes lease together.
func (p *players) stats() (sum core.LeaseStats) {
	for _, l := range p.limiters {
		s := l.StoreHealth().Leases
		sum = core.LeaseStats{Keys: sum.Keys + s.Keys, Decisions: sum.Decisions + s.Decisions, Returned: sum.Returned + s.Returned}
	}
	return sum
}

// charged returns what Redis has charged.
func (p *players) charged(t *testing.T) int64 {
	t.Helper()
	limits := core.MustParseLimits(p.tiers[0])
	d, err := p.limiters[0].Take(context.Background(), core.Claim{Rule: "leased", Key: "k", Limits: limits, Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	return int64(d.Results[0].Limit.Capacity() - d.Results[0].Remaining)
}

// inBubble returns a store in a synctest bubble, on a server that decides by the bubble's clock.
func inBubble(t *testing.T, server *redistest.Server, opts ...redisstore.Option) *redisstore.Store {
	s := redisstore.New(server.Client(t), opts...)
	s.SetClock(time.Now)
	return s
}

// play asks until an instant.
func (p *players) play(t *testing.T, l *core.Limiter, r *rand.Rand, end time.Time) {
	ctx := context.Background()
	for time.Now().Before(end) {
		time.Sleep(time.Duration(r.IntN(int(msec))))
		if r.IntN(20) == 0 {
			time.Sleep(time.Duration(r.IntN(int(20 * msec))))
		}
		c := core.Claim{
			Rule: "leased", Key: "k", Cost: 1 + r.IntN(3), Peek: r.IntN(8) == 0,
			Limits: core.MustParseLimits(p.tiers[r.IntN(len(p.tiers))]), Lease: p.leases[r.IntN(len(p.leases))],
		}
		claims := []core.Claim{c}
		if n := r.IntN(8); n < 2 {
			claims = append(claims, core.Claim{Rule: "other", Key: fmt.Sprint("k", n*r.IntN(1000))})
		}
		d, err := l.Take(ctx, claims...)
		if err != nil {
			t.Error(err)
			return
		}
		if d.Allowed && !c.Peek {
			p.used.Add(int64(c.Cost))
		}
		if d.Allowed && !c.Peek && !p.rates && r.IntN(50) == 0 {
			p.used.Add(-int64(c.Cost))
			if err := l.Refund(ctx, d); err != nil && !strings.Contains(err.Error(), "canceled") {
				t.Error(err)
			}
		}
	}
}
