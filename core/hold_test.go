package core_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

func (*settler) Reset(context.Context, []core.Pair) error { return nil }

func TestCostAfterIsChargedWhenTheRequestEnds(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		why     string
		outcome core.Outcome
		final   func(*http.Request, core.Outcome) int
		want    string
	}{
		{"a request that went well", core.Outcome{Status: 200}, core.Failures, "login 1→0"},
		{"an informational one", core.Outcome{Status: 101}, core.Failures, "login 1→0"},
		{"a redirect", core.Outcome{Status: 399}, core.Failures, "login 1→0"},
		{"a failed one", core.Outcome{Status: 400}, core.Failures, "login 1→1"},
		{"a fault of the server", core.Outcome{Status: 503}, core.Failures, "login 1→1"},
		{"a panic, whatever the status", core.Outcome{Status: 200, Err: boom}, core.Failures, "login 1→1"},
		{"any other cost", core.Outcome{Bytes: 12_345}, func(_ *http.Request, o core.Outcome) int { return int(o.Bytes) }, "login 1→12345"},
		{"the Cost of the adapter is not used", core.Outcome{Cost: 77}, costOf, "login 1→1"},
		{"less than nothing", core.Outcome{}, func(*http.Request, core.Outcome) int { return -1 }, "login 1→1"},
		{"a panic", core.Outcome{}, func(*http.Request, core.Outcome) int { panic("ouch") }, "login 1→1"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			s := new(settler)
			l := withStore(s, []core.Rule{final("login", 5, tt.final)})
			serve(t, l, func(_ *http.Request, g *core.Guard) {
				s.want(t)
				if !g.Watches() || !s.taken[0].Hold {
					t.Errorf("watches: %v; held: %v", g.Watches(), s.taken[0].Hold)
				}
				g.Settle(tt.outcome)
				g.Settle(core.Outcome{Status: 500})
				if g.Watches() {
					t.Error("it watches after the end")
				}
			})
			s.want(t, tt.want)
		})
	}
}

func TestCostAfterGetsTheRequestThatWasPassedOn(t *testing.T) {
	var seen *http.Request
	l := withStore(new(settler), []core.Rule{final("r", 5, func(r *http.Request, _ core.Outcome) int { seen = r; return 0 })})
	serve(t, l, func(r *http.Request, g *core.Guard) {
		g.Settle(core.Outcome{})
		if seen != r {
			t.Error("CostAfter got another request than the handler")
		}
	})
}

func TestOnlyRulesWithCostAfterAreWatched(t *testing.T) {
	s := new(settler)
	l := withStore(s, []core.Rule{perHour("r", 5)})
	serve(t, l, func(_ *http.Request, g *core.Guard) {
		if g.Watches() || s.taken[0].Hold {
			t.Errorf("watches: %v; held: %v", g.Watches(), s.taken[0].Hold)
		}
		g.Settle(core.Outcome{Status: 500})
	})
	s.want(t)
}

func TestHoldIsChargedIfTheAdapterDoesNotWatch(t *testing.T) {
	s := new(settler)
	serve(t, withStore(s, []core.Rule{final("login", 5, core.Failures)}), func(*http.Request, *core.Guard) {})
	s.want(t, "login 1→1")
}

func TestLimiterMountedTwiceSettlesOnce(t *testing.T) {
	s := new(settler)
	l := withStore(s, []core.Rule{final("login", 5, core.Failures)})
	serve(t, l, func(r *http.Request, g *core.Guard) {
		inner, err := l.Guard(r.Context(), r, nil)
		if err != nil || inner.Watches() {
			t.Errorf("%v; the inner one watches: %v", err, inner.Watches())
		}
		inner.Settle(core.Outcome{Status: 500})
		inner.End()
		s.want(t)
		g.Settle(core.Outcome{Status: 200})
	})
	s.want(t, "login 1→0")
}

// A middleware between both mounts gives the request another context.
func TestEndOfTheInnerMountLeavesTheDecision(t *testing.T) {
	l := core.Must(core.New([]core.Rule{perHour("a", 5)}))
	serve(t, l, func(r *http.Request, _ *core.Guard) {
		r = r.WithContext(context.WithValue(r.Context(), word{}, 1))
		inner, err := l.Guard(r.Context(), r, nil)
		inner.End()
		if d, ok := core.FromContext(r.Context()); err != nil || !ok || len(d.Results) != 1 {
			t.Errorf("%v; the request carries %+v, %v", err, d, ok)
		}
	})
}

func TestHeldCostIsAtMostTheSmallestCapacity(t *testing.T) {
	for _, tt := range []struct {
		why    string
		limits []core.Limit
		final  func(*http.Request, core.Outcome) int
		want   int
	}{
		{"an estimate that fits", []core.Limit{core.PerHour(1000)}, costOf, 500},
		{"an estimate above the capacity", []core.Limit{core.PerHour(100)}, costOf, 100},
		{"above the smaller of two", []core.Limit{core.PerHour(300), core.PerMinute(40)}, costOf, 40},
		{"nothing is admitted", []core.Limit{core.PerHour(0)}, costOf, 1},
		{"without CostAfter it is no estimate", []core.Limit{core.PerHour(100)}, nil, 500},
	} {
		s := new(settler)
		rule := core.Rule{Name: "r", Key: keyK, Limits: tt.limits, Cost: cost(500), CostAfter: tt.final}
		l := withStore(s, []core.Rule{rule})
		for name, take := range map[string]func(){
			"Check": func() { l.Check(get("/")) },
			"Peek":  func() { l.Peek(get("/")) },
			"Take":  func() { l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Cost: 500, Hold: true}) },
		} {
			s.taken = nil
			if take(); s.taken[0].Cost != tt.want {
				t.Errorf("%s: %s asked for %d, want %d", tt.why, name, s.taken[0].Cost, tt.want)
			}
			if name == "Peek" && s.taken[0].Hold {
				t.Error("a peek holds something")
			}
		}
	}
}

func TestDeniedRequestsHoldNothing(t *testing.T) {
	asked := false
	rule := final("login", 0, func(*http.Request, core.Outcome) int { asked = true; return 1 })
	l := core.Must(core.New([]core.Rule{rule}))
	serve(t, l, func(_ *http.Request, g *core.Guard) {
		if g.Admitted() || g.Watches() {
			t.Errorf("admitted: %v; watches: %v", g.Admitted(), g.Watches())
		}
		g.Settle(core.Outcome{Status: 429})
	})
	if asked {
		t.Error("CostAfter was asked about a denied request")
	}
}

func TestCheckLeavesSettlingToTheCaller(t *testing.T) {
	s := new(settler)
	rule := final("r", 5, core.Failures)
	rule.Match = func(*http.Request) bool { return true } // a callback, so that Check works on a copy of the request
	l := withStore(s, []core.Rule{rule})
	d, err := l.Check(get("/"))
	if err != nil {
		t.Fatal(err)
	}
	s.want(t)
	if err := l.Settle(t.Context(), d, "r", 0); err != nil {
		t.Fatal(err)
	}
	s.want(t, "r 1→0")
}

func TestRateOfZeroDeniesAnEstimate(t *testing.T) {
	rule := final("r", 0, costOf)
	rule.Cost = cost(10)
	d, err := core.Must(core.New([]core.Rule{rule})).Peek(get("/"))
	if err != nil || d.Allowed || d.Results[0].RetryAfter != core.Never {
		t.Errorf("got %+v, %v; want Never", d, err)
	}
}

func TestHealthReportsHeldClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(core.MemoryStore)
		l := core.Must(core.New([]core.Rule{{Name: "r", Key: keyK, Limits: core.MustParseLimits("20 at once")}}, core.WithStore(store)))
		want := func(n int, why string) {
			t.Helper()
			if h := l.StoreHealth(); h.Held != n || store.Stats().Held != n {
				t.Errorf("%s: got %d and %d held, want %d", why, h.Held, store.Stats().Held, n)
			}
		}
		want(0, "at first")
		var decisions []core.Decision
		for _, key := range []string{"a", "a", "b", "c"} {
			d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: key, Hold: true})
			if err != nil {
				t.Fatal(err)
			}
			decisions = append(decisions, d)
		}
		want(4, "four claims of three keys")
		if err := l.Settle(t.Context(), decisions[0], "r", 1); err != nil {
			t.Fatal(err)
		}
		want(3, "one is settled")
		time.Sleep(59 * time.Second)
		if err := l.Renew(t.Context(), decisions[2]); err != nil {
			t.Fatal(err)
		}
		want(3, "before they expire")
		time.Sleep(7 * time.Second)
		want(1, "all but the renewed one have expired, and nobody has asked for their keys since")
		time.Sleep(time.Minute)
		want(0, "the last one has expired")
	})
}

func TestStoreOfALimiter(t *testing.T) {
	store, rules := new(core.MemoryStore), []core.Rule{core.PerHour(1).By(keyK)}
	if got := core.Must(core.New(rules, core.WithStore(store))).Store(); got != store {
		t.Errorf("got %v, want the store that was given", got)
	}
	if _, ok := core.Must(core.New(rules)).Store().(*core.MemoryStore); !ok {
		t.Error("a limiter without WithStore has no MemoryStore")
	}
	if got := new(core.Limiter).Store(); got != nil {
		t.Errorf("got %v of a limiter that New has not made", got)
	}
}
