package client_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

// TestFleetSharesOneBudget has ten processes send as fast as a shared limit of 50 per second allows, to a server with
// the same limit. The processes share the limit through their hooks. A stranger's burst first causes one denial.
// After that, and after the requests booked by then, no request is denied, and at least 95% of the server's limit is
// used.
func TestFleetSharesOneBudget(t *testing.T) {
	const processes, callers, span = 10, 2, 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := limited(core.PerSecond(50).WithBurst(5), headers.RetryAfter) // so processes learn of others' denials only through their hooks
		s.latency = func() time.Duration { return 5 * time.Millisecond }
		stranger := s.over(&client.Transport{MaxWait: -1})
		for range 4 {
			if status := get(t, stranger, "/"); status != 200 {
				t.Fatalf("the stranger got %d", status)
			}
		}
		var strangers sync.WaitGroup
		for range 4 { // uses up the rest
			strangers.Go(func() {
				if resp, err := s.RoundTrip(request(t, "http://api.example/")); err == nil {
					resp.Body.Close()
				}
			})
		}
		time.Sleep(5 * time.Millisecond)

		store, ctx := new(core.MemoryStore), context.Background()
		begun := time.Now()
		var firstDenial, pauseEnds, served atomic.Int64
		var booked sync.Map // the instants of the decisions
		var all sync.WaitGroup
		for range processes {
			l := core.Must(core.New([]core.Rule{{
				Name: "partner", Limits: []core.Limit{core.PerSecond(50).WithBurst(1)}, MaxWait: time.Minute,
			}}, core.WithStore(store)))
			claim := core.Claim{Rule: "partner", Key: "const:all"}
			c := s.over(&client.Transport{
				Before: func(r *http.Request) error {
					d, err := l.Wait(r.Context(), claim)
					if err == nil && !d.Allowed {
						err = errors.New("too many wait")
					}
					booked.Store(r, d.At)
					if at, now := int64(d.At.Sub(begun)), int64(time.Since(begun)); firstDenial.Load() > 0 && at > firstDenial.Load() && now < pauseEnds.Load() {
						t.Errorf("a request is sent at %v that was booked at %v, during a pause", time.Duration(now), time.Duration(at))
					}
					return err
				},
				OnDenied: func(r *http.Request, d time.Duration) {
					if err := l.Ban(ctx, claim.Rule, claim.Key, max(d, time.Second)); err != nil {
						t.Error(err)
					}
					if firstDenial.CompareAndSwap(0, int64(time.Since(begun))) {
						pauseEnds.Store(int64(time.Since(begun) + max(d, time.Second)))
					}
					if at, _ := booked.Load(r); int64(at.(time.Time).Sub(begun)) > firstDenial.Load() {
						t.Errorf("a request is denied that was booked at %v, after the first denial", at)
					}
				},
			})
			for range callers {
				all.Go(func() {
					for time.Since(begun) < span {
						if get(t, c, "/") == 200 && time.Since(begun) < span {
							served.Add(1)
						}
					}
				})
			}
		}
		all.Wait()
		if firstDenial.Load() == 0 {
			t.Error("no request was denied")
		}
		if most := int64(50 * span / time.Second); served.Load() < most*95/100 {
			t.Errorf("%d served, want 95%% of %d", served.Load(), most)
		}
	})
}
