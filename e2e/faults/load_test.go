package faults

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
)

// One connection that is cut under load is one failure, however many callers wait for it: the breaker stays closed. On a busy
// machine other calls may be late, so one of three attempts must pass.
func TestOneConnectionIsCutUnderLoad(t *testing.T) {
	for range 3 {
		if n, h := cutOneConnection(t); n <= 256 && !h.Down && h.Since.IsZero() {
			return
		}
	}
	t.Error("a connection that was cut opened the breaker, or more than one decision of each caller was made without the store, in each attempt")
}

// cutOneConnection cuts a connection under 256 callers. It returns how many decisions were made without the store, and its health.
func cutOneConnection(t *testing.T) (int64, core.Health) {
	s := newScene(t)
	g := newGuard(s, s.store, "open", slowly(1_000_000), longDeadline)
	g.comesBack("k")
	var callers sync.WaitGroup
	var degraded, decided atomic.Int64
	var end atomic.Bool
	for i := range 256 {
		callers.Go(func() {
			for !end.Load() {
				if d := g.take(fmt.Sprint(i)); d.Degraded != nil {
					degraded.Add(1)
				}
				decided.Add(1)
			}
		})
	}
	more := func(n int64) func() bool {
		from := decided.Load()
		return func() bool { return decided.Load() >= from+n }
	}
	redistest.Wait(t, "the callers to be busy", more(5000))
	s.proxy.Fault.Store(redistest.Fault{Lose: redistest.Replies, End: redistest.EOF, Once: true})
	redistest.Wait(t, "a connection to be cut", func() bool { return degraded.Load() > 0 })
	redistest.Wait(t, "the callers to go on", more(5000))
	end.Store(true)
	callers.Wait()
	t.Logf("%d decisions were made without the store", degraded.Load())
	return degraded.Load(), g.StoreHealth()
}

// A client that floods a slow but healthy Redis is not admitted beyond what the limits in this process admit.
func TestFloodOfADeniedClient(t *testing.T) {
	for _, mode := range []string{"local", "open", "closed"} {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t)
			const limit, requests = 100, 10_000
			s.store = redisstore.New(s.client, redisstore.WithDenyCache(0)) // so that the flood gets to Redis
			g := newGuard(s, s.store, mode, slowly(limit), longDeadline)
			g.comesBack("k")
			for range limit {
				charge(t, s.direct, mode, "k", slowly(limit))
			}
			s.proxy.Fault.Store(redistest.Fault{Delay: 20 * time.Millisecond})
			var callers sync.WaitGroup
			var admitted, failed atomic.Int64
			for range requests {
				callers.Go(func() {
					d, err := g.Take(context.Background(), core.Claim{Rule: mode, Key: "k"})
					if err != nil {
						failed.Add(1)
					} else if d.Allowed {
						admitted.Add(1)
					}
				})
			}
			callers.Wait()
			h := g.StoreHealth()
			if admitted.Load() > limit || failed.Load() > 0 || h.Down || !h.Since.IsZero() {
				t.Errorf("%d of %d requests were admitted and %d not decided, want %d at most, and none: %+v",
					admitted.Load(), requests, failed.Load(), limit, h)
			}
			t.Logf("%d requests were decided by local limits, %d of them were admitted", h.Overloads, admitted.Load())
		})
	}
}

// Logins that fail are charged while other clients flood a route of the same limiter that denies them.
func TestLoginsAreSettledDuringAFlood(t *testing.T) {
	for _, cache := range []int{0, 4096} {
		t.Run(fmt.Sprint("deny cache ", cache), func(t *testing.T) {
			s := newScene(t)
			const logins = 200
			api, login := slowly(1).By(anyKey), slowly(1000).By(anyKey)
			api.Name, login.Name, login.OnFailure = "api", "login", core.FailClosed
			var late atomic.Int64
			l := core.Must(core.New([]core.Rule{api, login}, core.WithStore(redisstore.New(s.client, redisstore.WithDenyCache(cache))),
				core.WithTimeout(time.Second)))
			ctx := context.Background()
			var flood, failing sync.WaitGroup
			var end atomic.Bool
			for range 300 {
				flood.Go(func() {
					for !end.Load() {
						expect.NoError(t, expect.ErrorOf(l.Take(ctx, core.Claim{Rule: "api", Key: "denied"})), "Take")
						time.Sleep(time.Millisecond) // as a request over a network would
					}
				})
			}
			for range 10 {
				failing.Go(func() {
					for range logins / 10 {
						d, err := l.Take(ctx, core.Claim{Rule: "login", Key: "k", Hold: true})
						if err != nil {
							t.Errorf("hold: %v", err)
							continue
						}
						if l.Settle(ctx, d, "login", 1) != nil {
							late.Add(1)
						}
					}
				})
			}
			failing.Wait()
			end.Store(true)
			flood.Wait()
			expect.AtMost(t, late.Load(), 1, "of %d settlements failed", logins)
			expect.Equal(t, used(t, s.direct, "login", "k", slowly(1000)), logins, "logins count")
		})
	}
}

func anyKey(*http.Request) (string, error) { return "k", nil }
