package faults

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// If Redis is cut off while a request runs, its hold cannot be released. The final cost is charged to the fallback, which makes
// the next decisions.
func TestCutBetweenTakeAndSettle(t *testing.T) {
	s := newScene(t)
	rule := slowly(10).By(func(*http.Request) (string, error) { return "k", nil })
	rule.Name, rule.OnFailure, rule.CostAfter = "local", core.FailLocal, func(_ *http.Request, o core.Outcome) int { return o.Cost }
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(s.store), longDeadline))
	ctx := context.Background()
	claim := core.Claim{Rule: "local", Key: "k", Cost: 2, Hold: true}
	held, err := l.Take(ctx, claim)
	must.True(t, err == nil && held.Allowed && held.Degraded == nil && held.Results[0].Remaining == 8,
		"got %v and the error %v, want a hold in Redis that leaves 8", held, err)
	s.proxy.Reject()
	defer s.proxy.Accept(s)
	expect.Fails(t, l.Settle(ctx, held, "local", 7), "Redis settled a request that it cannot know")
	claim.Cost, claim.Hold, claim.Peek = 3, false, true
	d, err := l.Take(ctx, claim)
	expect.True(t, err == nil && d.Degraded != nil && d.Allowed && d.Results[0].Remaining == 3,
		"got %v and the error %v, want a decision of the fallback in which 7 of 10 are charged", d, err)
	claim.Cost = 4
	d, err = l.Take(ctx, claim)
	expect.True(t, err == nil && !d.Allowed, "got %v and the error %v for a cost of 4, want a denial", d, err)
	expect.Equal(t, used(t, s.direct, "local", "k", slowly(10)), 2, "of 10 count in Redis (the 2 that are held until they expire)")
}

// If Redis is cut off while a request runs, its client notices nothing. The final cost that the handler sets is charged to the
// fallback, and observers get the error of Redis.
func TestCutDuringRequest(t *testing.T) {
	for _, f := range apps.Frameworks {
		t.Run(f.Name, func(t *testing.T) {
			s := newScene(t)
			rule := slowly(10).By(wire.Anyone)
			rule.Name, rule.CostAfter = "local", func(_ *http.Request, o core.Outcome) int { return o.Cost }
			rule.Cost = func(*http.Request) int { return 2 }
			ends := make(chan core.Observation, 1)
			l := core.Must(core.New([]core.Rule{rule}, core.WithStore(s.store), longDeadline,
				core.WithObserver(func(_ context.Context, o *core.Observation) {
					if o.Outcome != nil {
						ends <- core.Observation{Err: o.Err, Charged: o.Charged}
					}
				})))
			server := wire.Serve(t, f.Build(apps.Limited(l, func(w http.ResponseWriter, r *http.Request) {
				s.proxy.Reject()
				core.SetCost(r.Context(), "local", 7)
				_, _ = io.WriteString(w, "served")
			})), false)
			reply := server.Get("/")
			reply.WantStatus(t, http.StatusOK)
			left := reply.Header.Get("X-RateLimit-Remaining")
			expect.True(t, left == "8" && reply.Body == "served", "Remaining is %s of %q, want 8 as Redis said", left, reply.Body)
			if end := <-ends; end.Err == nil || end.Charged != 7 {
				t.Errorf("observers heard of a final cost of %d and the error %v", end.Charged, end.Err)
			}
			d, err := l.Take(t.Context(), core.Claim{Rule: "local", Key: "const:all", Peek: true})
			expect.True(t, err == nil && d.Degraded != nil && d.Results[0].Remaining == 3,
				"got %v and the error %v, want a decision of the fallback in which 7 of 10 are charged", d, err)
			expect.Equal(t, used(t, s.direct, "local", "const:all", slowly(10)), 2, "of 10 count in Redis (the 2 that are held until they expire)")
			s.proxy.Accept(s)
		})
	}
}
