package core_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/core"
)

func TestObserversOfSettlements(t *testing.T) {
	s, seen := new(settler), new(recorder)
	two := []core.Rule{final("a", 50, func(*http.Request, core.Outcome) int { return 3 }), final("b", 50, func(*http.Request, core.Outcome) int { return -4 })}
	two[1].Cost = cost(5)
	l := withStore(s, append(two, perHour("plain", 9)), core.WithObserver(seen.observe))
	var request *http.Request
	serve(t, l, func(r *http.Request, g *core.Guard) {
		request = r
		g.Settle(core.Outcome{Status: 201, Bytes: 10})
	})
	s.want(t, "a 1→3", "b 5→5")
	if len(seen.seen) != 2 || seen.seen[0].Outcome != nil {
		t.Fatalf("observers saw %+v, want the decision, then the settlement", seen.seen)
	}
	o := seen.seen[1]
	if *o.Outcome != (core.Outcome{Cost: 6, Status: 201, Bytes: 10}) || o.Charged != 8 || o.Request != request || !o.Allowed || len(o.Results) != 3 {
		t.Errorf("got %+v with outcome %+v", o, o.Outcome)
	}
	wantError(t, o.Err, core.ErrInvalid, `spillgate: cost after rule "b": cost must not be negative, got -4`)
	if len(o.Claims) != 2 || o.Claims[0].Cost != 1 || o.Claims[1].Cost != 5 || !o.Claims[0].Hold {
		t.Errorf("got claims %+v, want what was held", o.Claims)
	}
}

func TestFailingCostAfterIsLogged(t *testing.T) {
	log := keepJournal(t)
	l := withStore(new(settler), []core.Rule{final("login", 5, func(*http.Request, core.Outcome) int { panic("ouch") })})
	for range 3 {
		serve(t, l, func(_ *http.Request, g *core.Guard) { g.Settle(core.Outcome{}) })
	}
	wantLines(t, log.String(), `rule=login err="spillgate: cost after rule \"login\": a callback panicked: ouch" stack=`)
}

// When the store is cut off between Take and Settle, the fallback is charged for rules that fail local.
func TestStoreCutBetweenTakeAndSettle(t *testing.T) {
	for m, want := range map[core.FailureMode][]string{
		core.FailLocal: {"login 2→2"}, core.FailOpen: nil, core.FailClosed: nil,
	} {
		s, fallback, seen := &settler{err: errRefused}, new(settler), new(recorder)
		rule := final("login", 5, core.Failures)
		rule.OnFailure, rule.Cost = m, cost(2)
		l := withStore(s, []core.Rule{rule}, core.WithFallback(fallback), core.WithObserver(seen.observe))
		serve(t, l, func(_ *http.Request, g *core.Guard) { g.Settle(core.Outcome{Status: 401}) })
		s.want(t, "login 2→2")
		fallback.want(t, want...)
		for _, c := range fallback.settled {
			if !c.At.IsZero() || !c.Held {
				t.Errorf("the fallback is to release nothing: %+v", c)
			}
		}
		if o := seen.seen[1]; !errors.Is(o.Err, core.ErrUnavailable) || o.Charged != 2 {
			t.Errorf("mode %v: observers saw %+v, want the failure", m, o)
		}
	}
}

func TestFreeRequestIsNotChargedInTheFallback(t *testing.T) {
	s, fallback := &settler{err: errRefused}, new(faulty)
	l := withStore(s, []core.Rule{final("login", 5, core.Failures)}, core.WithFallback(fallback))
	serve(t, l, func(_ *http.Request, g *core.Guard) { g.Settle(core.Outcome{Status: 200}) })
	s.want(t, "login 1→0")
	if n := fallback.calls.Load(); n != 0 {
		t.Errorf("%d calls of the fallback", n)
	}
}

func TestRuleWithoutCostAfterSettlesWithoutAnError(t *testing.T) {
	s, seen := new(settler), new(recorder)
	l := withStore(s, []core.Rule{{Name: "uploads", Key: keyK, Limits: []core.Limit{core.AtOnce(2)}}}, core.WithObserver(seen.observe))
	serve(t, l, func(*http.Request, *core.Guard) {})
	s.want(t, "uploads 1→1")
	if o := seen.seen[1]; o.Err != nil || o.Charged != 1 {
		t.Errorf("got %+v, %v", o, o.Err)
	}
}

func TestFallbackThatFailsIsAskedOnce(t *testing.T) {
	fallback := &settler{err: errRefused}
	l := withStore(&faulty{fault: refuse}, []core.Rule{final("login", 5, core.Failures)}, core.WithFallback(fallback))
	serve(t, l, func(_ *http.Request, g *core.Guard) { g.Settle(core.Outcome{Status: 401}) })
	fallback.want(t, "login 1→1")
}

func TestHeldInTheFallbackIsSettledThere(t *testing.T) {
	s, fallback := &faulty{fault: refuse}, new(settler)
	l := withStore(s, []core.Rule{final("login", 5, core.Failures)}, core.WithFallback(fallback))
	serve(t, l, func(_ *http.Request, g *core.Guard) {
		s.fault = nil // the store is back
		g.Settle(core.Outcome{Status: 401})
	})
	fallback.want(t, "login 1→1")
	if n := s.calls.Load(); n != 1 {
		t.Errorf("%d calls of the store, want only the call of Take", n)
	}
}
