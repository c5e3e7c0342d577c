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

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
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

// TestLeasesLoseNothing has processes lease a key while requests are denied elsewhere, refunded and peeked. In the end Redis has
// charged what was admitted, plus at most what rounding adds when refunds and rates meet.
func TestLeasesLoseNothing(t *testing.T) {
	for name, c := range map[string]leaseCase{
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
	} {
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

func (p *players) charged(t *testing.T) int64 {
	t.Helper()
	limits := core.MustParseLimits(p.tiers[0])
	d := must.Get(p.limiters[0].Take(context.Background(), core.Claim{Rule: "leased", Key: "k", Limits: limits, Peek: true}))(t)
	return int64(d.Results[0].Limit.Capacity() - d.Results[0].Remaining)
}

// inBubble returns a store in a synctest bubble, on a server that decides by the bubble's clock.
func inBubble(t *testing.T, server *redistest.Server, opts ...redisstore.Option) *redisstore.Store {
	s := redisstore.New(server.Client(t), opts...)
	s.SetClock(time.Now)
	return s
}

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
			err := l.Refund(ctx, d)
			expect.True(t, err == nil || strings.Contains(err.Error(), "canceled"), "%v", err)
		}
	}
}

// leasing returns a limiter that leases the keys of its one rule, in a bubble.
func leasing(t *testing.T, server *redistest.Server, limits string, lease time.Duration) *core.Limiter {
	rule := core.Rule{Name: "leased", Key: keyfunc.Const("all"), Limits: core.MustParseLimits(limits), Lease: lease}
	return core.Must(core.New([]core.Rule{rule}, core.WithStore(inBubble(t, server))))
}

func takeLeased(t *testing.T, l *core.Limiter, cost int) core.Result {
	t.Helper()
	return must.Get(l.Take(context.Background(), core.Claim{Rule: "leased", Key: "k", Cost: cost}))(t).Results[0]
}

// TestRemainingOfALeasedKey sends one request after the other: one less remains each time, whether a lease or Redis decides.
// Only while requests are charged ahead do they count as used. A refund does not give back what may have drained since the loan.
// That is far less than one request here, but the last request may have to wait for it.
func TestRemainingOfALeasedKey(t *testing.T) {
	for _, lease := range []time.Duration{time.Millisecond, 30 * time.Millisecond, time.Second} {
		server := redistest.Start(t)
		synctest.Test(t, func(t *testing.T) { checkRemaining(t, leasing(t, server, "3000/1000h", lease), lease) })
	}
}

func checkRemaining(t *testing.T, l *core.Limiter, lease time.Duration) {
	near, begun := 0, time.Now()
	for used := range 3000 {
		time.Sleep(100 * time.Microsecond)
		r := takeLeased(t, l, 1)
		want := 3000 - used - 1
		if !r.Allowed && want == 0 && r.RetryAfter < 2*time.Since(begun) {
			time.Sleep(r.RetryAfter)
			r = takeLeased(t, l, 1)
		}
		must.True(t, r.Remaining <= want+1 && r.Remaining >= want-used-1 && r.Allowed,
			"lease %v, request %d: %d remain, want %d: %+v", lease, used+1, r.Remaining, want, r)
		if r.Remaining >= want-1 {
			near++
		}
		must.True(t, r.ResetAfter >= r.RefillAfter && r.RefillAfter > 0 && r.RefillAfter <= 1201*time.Second, "lease %v: %+v", lease, r)
		must.Equal(t, time.Since(r.At.Truncate(time.Microsecond)), 0, "lease %v: decided ago, by the clock of the server", lease)
	}
	expect.NotEqual(t, l.StoreHealth().Leases.Decisions, 0, "lease %v: no decision came from it", lease)
	expect.True(t, lease <= time.Millisecond || near >= 1500,
		"lease %v: what remains was right within one request %d times of 3000", lease, near)
}

// TestUnusedRequestsOfSeveralProcessesCount lets several processes use one key in turn, in bursts. Afterwards, all unused requests are
// available again, except for what may have drained between a loan and its refund. The limit drains one request in six minutes.
func TestUnusedRequestsOfSeveralProcessesCount(t *testing.T) {
	server := redistest.Start(t)
	synctest.Test(t, func(t *testing.T) {
		used, random := 0, rand.New(rand.NewPCG(18, 2))
		var all []*core.Limiter
		for range 8 {
			all = append(all, leasing(t, server, "10000/1000h", 20*time.Millisecond))
		}
		for range 200 {
			l := all[random.IntN(len(all))]
			for range random.IntN(20) {
				takeLeased(t, l, 1)
				used++
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second) // until all is returned
		d := must.Get(all[0].Take(context.Background(), core.Claim{Rule: "leased", Key: "k", Peek: true}))(t)
		got, want := d.Results[0].Remaining, 10000-used
		expect.True(t, got <= want && got >= want-1, "%d remain, want %d, or one less", got, want)
		for _, l := range all {
			h := l.StoreHealth().Leases
			expect.True(t, h.Decisions != 0 && h.Returned != 0, "a process did not lease: %+v", h)
		}
	})
}

// TestRetryAfterOfALeasedKey waits as long as a denial says: then the same cost fits.
func TestRetryAfterOfALeasedKey(t *testing.T) {
	for _, limits := range []string{"100/s", "20/200ms;fixed-window", "200/s;burst=10, 150/500ms;fixed-window"} {
		server := redistest.Start(t)
		synctest.Test(t, func(t *testing.T) {
			l, denied := leasing(t, server, limits, 20*time.Millisecond), 0
			for i := 0; denied < 12 && i < 10_000; i++ {
				cost := 1 + i%3
				d := must.Get(l.Take(context.Background(), core.Claim{Rule: "leased", Key: "k", Cost: cost}))(t)
				time.Sleep(100 * time.Microsecond)
				if d.Allowed {
					continue
				}
				denied++
				time.Sleep(d.RetryAfter() - 100*time.Microsecond)
				again := takeLeased(t, l, cost)
				expect.True(t, again.Allowed, "%s: cost %d is denied after waiting %v: %+v", limits, cost, d.RetryAfter(), again)
			}
			expect.AtLeast(t, denied, 12, "%s: how often denied", limits)
			expect.NotEqual(t, l.StoreHealth().Leases.Decisions, 0, "%s: no decision came from a lease", limits)
		})
	}
}

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

// demand asks so many times per second until p is killed, and adds what is admitted.
func (p *process) demand(perSecond int, admitted *atomic.Int64) {
	for !p.killed.Load() {
		time.Sleep(time.Second / time.Duration(perSecond))
		if d, err := p.limiter.Take(context.Background(), core.Claim{Rule: "leased", Key: "const:all"}); err == nil && d.Allowed {
			admitted.Add(1)
		}
	}
}

// TestLeasesServeTheLimit runs eight processes that together request twice the limit, and kills one now and then. The processes
// get at least 0.95 of the limit, although killed processes take their leases along.
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
			all[i].killed.Store(true)
			all[i].client.Close() // so that it returns nothing that it leases
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
		expect.True(t, share >= 0.95 && share <= 1.02, "served %.3f of the limit, want 0.95 to 1", share)
	})
}
