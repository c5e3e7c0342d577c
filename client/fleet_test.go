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

// TestFleetSharesOneBudget lets ten processes send as fast as one limit of 50 per second, which they share through
// their hooks, admits, to a server that admits as many. One request of a stranger's burst is denied at first. After
// that, and after what was booked by then, none is, and at least 95% of what the server admits is used.
func TestFleetSharesOneBudget(t *testing.T) {
	const processes, callers, span = 10, 20, 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := limited(core.PerSecond(50).WithBurst(5), headers.GitHub)
		s.latency = func() time.Duration { return 5 * time.Millisecond }
		stranger := s.over(&client.Transport{MaxWait: -1})
		for range 4 {
			if status := get(t, stranger, "/"); status != 200 {
				t.Fatalf("the stranger got %d", status)
			}
		}
		var strangers sync.WaitGroup
		for range 4 { // uses the rest up
			strangers.Go(func() {
				if resp, err := s.RoundTrip(request(t, "http://api.example/")); err == nil {
					resp.Body.Close()
				}
			})
		}
		time.Sleep(5 * time.Millisecond)

		store, ctx := new(core.MemoryStore), context.Background()
		begun := time.Now()
		var firstDenial, lateDenials, served atomic.Int64
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
					return err
				},
				OnDenied: func(_ *http.Request, d time.Duration) {
					switch at := int64(time.Since(begun)); {
					case firstDenial.CompareAndSwap(0, at):
					case at > firstDenial.Load()+int64(time.Second):
						lateDenials.Add(1)
					}
					if err := l.Ban(ctx, claim.Rule, claim.Key, max(d, time.Second)); err != nil {
						t.Error(err)
					}
				},
			})
			for range callers {
				all.Go(func() {
					for time.Since(begun) < span {
						if get(t, c, "/") == 200 {
							served.Add(1)
						}
					}
				})
			}
		}
		all.Wait()
		if firstDenial.Load() == 0 || lateDenials.Load() > 0 {
			t.Errorf("%d denials after the first one, at %v", lateDenials.Load(), time.Duration(firstDenial.Load()))
		}
		free := span - time.Duration(firstDenial.Load()) - time.Second
		if most := int64(50 * free.Seconds()); served.Load() < most*95/100 {
			t.Errorf("%d served, want 95%% of %d", served.Load(), most)
		}
	})
}
