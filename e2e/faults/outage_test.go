package faults

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// A fault puts a server out of service.
type fault struct {
	name       string
	args       []string // of the server
	begin, end func(*scene)
	says       string // the expected error; connections that end on the way and a busy machine may cause others
	late       bool   // commands may be executed after the deadline
	hangs      bool   // calls end only after the fault
	forgets    bool   // the server has no state afterwards
}

// run checks the three failure modes during f, what an operator sees of it, and that all recover afterwards.
func (f *fault) run(t *testing.T) {
	s := newScene(t, f.args...)
	limit := slowly(10)
	var guards []*guard
	for mode := range modes {
		g := newGuard(s, s.store, mode, limit)
		charge(s, s.direct, mode, "k", limit)
		g.comesBack("k")
		guards = append(guards, g)
	}
	f.begin(s)
	each(guards, func(g *guard) { f.suffer(g) })
	if !f.late && !f.hangs { // a call that its caller has given up may still wait for a connection, and be executed after the fault
		redistest.Wait(t, "all calls to end", func() bool { return s.inFlight.Load() == 0 })
	}
	f.end(s)
	s.await("PONG")
	for _, g := range guards {
		least, most := 1, 1
		if f.late {
			most += int(g.calls.takes.Load())
		}
		if f.forgets {
			least, most = 0, 0
		}
		if n := used(t, s.direct, g.rule, "k", limit); n < least || n > most {
			t.Errorf("%s: Redis holds %d requests against the key after the fault, want %d to %d", g.rule, n, least, most)
		}
	}
	each(guards, func(g *guard) {
		g.comesBack("k")
		g.wantBounded()
	})
	s.log.wantTransitions(t, len(guards))
}

// each runs f for all guards at once and waits.
func each(guards []*guard, f func(*guard)) {
	var wg sync.WaitGroup
	for _, g := range guards {
		wg.Go(func() { f(g) })
	}
	wg.Wait()
}

// suffer takes 12 of a limit of 10 from a limiter whose store is down.
func (f *fault) suffer(g *guard) {
	before := g.degraded.Load()
	for i := range 12 {
		d := g.take("k")
		allowed, results := i < 10, 1
		switch g.rule {
		case "open": // until the breaker is open, this process decides
			if len(d.Results) == 0 {
				allowed, results = true, 0
			}
		case "closed":
			allowed, results = false, 0
		}
		if says(d.Degraded, "too many calls") { // this process was late itself, on a busy machine, so its own limits decide
			continue
		}
		if d.Allowed != allowed || len(d.Results) != results || !says(d.Degraded, f.says+"|"+cut+"|"+late) {
			g.t.Errorf("%s: decision %d is %v, want allowed %v, %d results and %q", g.rule, i, d, allowed, results, f.says)
		}
	}
	if n := g.degraded.Load() - before; n != 12 {
		g.t.Errorf("%s: the observer saw %d of 12 degraded decisions", g.rule, n)
	}
	// It is open at once, unless calls were too slow to fill its window, or late. A server that takes no writes would
	// decide a Peek. The last call may be executed after its deadline, when the fault has ended.
	redistest.Wait(g.t, "the breaker to open, with "+f.says, func() bool {
		_, _ = g.Take(context.Background(), core.Claim{Rule: g.rule, Key: "another"})
		h := g.StoreHealth()
		return h.Down && !h.Since.IsZero() && says(h.Err, f.says)
	})
}

// If Redis never works, the failure mode decides from the first request on.
func TestWrongFromTheStart(t *testing.T) {
	s := newScene(t)
	s.do("config", "set", "requirepass", "secret")
	for name, wrong := range map[string]struct {
		options redis.Options
		says    string
	}{
		"address":     {redis.Options{Addr: redistest.FreeAddr(t), ContextTimeoutEnabled: true, PoolSize: 1000}, syscall.ECONNREFUSED.Error() + "|" + late}, // a smaller pool would say so itself
		"no password": {redis.Options{Addr: s.server.Addr}, "NOAUTH|unauthenticated"},
		"password":    {redis.Options{Addr: s.server.Addr, Password: "wrong"}, "WRONGPASS"},
		"user":        {redis.Options{Addr: s.server.Addr, Username: "nobody", Password: "secret"}, "WRONGPASS"},
	} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewClient(&wrong.options)
			defer client.Close()
			store := redisstore.New(client)
			var guards []*guard
			for mode := range modes {
				guards = append(guards, newGuard(t, store, mode, slowly(10)))
			}
			f := fault{says: wrong.says}
			each(guards, f.suffer)
			redistest.Wait(t, "an error that says why", func() bool {
				_, _ = guards[0].Take(context.Background(), core.Claim{Rule: guards[0].rule, Key: "another"})
				return says(guards[0].StoreHealth().Err, strings.TrimSuffix(wrong.says, "|"+late))
			})
		})
	}
	n := s.log.count(isDown)
	expect.True(t, n == 4*len(modes) && n == len(s.log.turns()), "want a line for each limiter, got %q", s.log)
}

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
	must.Do(t, l.Ban(t.Context(), claim.Rule, claim.Key, 3*time.Second)) // so that all still wait when Redis dies
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
