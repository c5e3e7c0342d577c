package faults

import (
	"context"
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// A Redis that is cut off while a request runs can release nothing. The final cost is charged to the fallback, which decides next.
func TestCutBetweenTakeAndSettle(t *testing.T) {
	s := newScene(t)
	rule := slowly(10).By(func(*http.Request) (string, error) { return "k", nil })
	rule.Name, rule.OnFailure, rule.Final = "local", core.FailLocal, func(_ *http.Request, o core.Outcome) int { return o.Cost }
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(s.store), longDeadline))
	ctx := context.Background()
	claim := core.Claim{Rule: "local", Key: "k", Cost: 2, Hold: true}
	held, err := l.Take(ctx, claim)
	if err != nil || !held.Allowed || held.Degraded != nil || held.Results[0].Remaining != 8 {
		t.Fatalf("got %v and the error %v, want a hold in Redis that leaves 8", held, err)
	}
	s.proxy.Refuse()
	defer s.proxy.Accept(s)
	if err := l.Settle(ctx, held, "local", 7); err == nil {
		t.Error("Redis settled what it cannot have heard of")
	}
	claim.Cost, claim.Hold, claim.Peek = 3, false, true
	d, err := l.Take(ctx, claim)
	if err != nil || d.Degraded == nil || !d.Allowed || d.Results[0].Remaining != 3 {
		t.Errorf("got %v and the error %v, want a decision of the fallback in which 7 of 10 are charged", d, err)
	}
	claim.Cost = 4
	if d, err := l.Take(ctx, claim); err != nil || d.Allowed {
		t.Errorf("got %v and the error %v for a cost of 4, want a denial", d, err)
	}
	if n := used(t, s.direct, "local", "k", slowly(10)); n != 2 {
		t.Errorf("%d of 10 count in Redis, want the 2 that are held until they expire", n)
	}
}
