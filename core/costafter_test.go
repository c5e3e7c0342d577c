package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
)

func TestCostAfterIsChargedWhenTheRequestEnds(t *testing.T) {
	for _, tt := range []struct {
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
		{"a panic, whatever the status", core.Outcome{Status: 200, Err: errors.New("boom")}, core.Failures, "login 1→1"},
		{"any other cost", core.Outcome{Bytes: 12_345}, func(_ *http.Request, o core.Outcome) int { return int(o.Bytes) }, "login 1→12345"},
		{"the Cost of the adapter is not used", core.Outcome{Cost: 77}, costOf, "login 1→1"},
		{"less than nothing", core.Outcome{}, func(*http.Request, core.Outcome) int { return -1 }, "login 1→1"},
		{"a panic", core.Outcome{}, func(*http.Request, core.Outcome) int { panic("ouch") }, "login 1→1"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			s, calls := new(settler), 0
			counted := func(r *http.Request, o core.Outcome) int { calls++; return tt.final(r, o) }
			serve(t, withStore(s, []core.Rule{final("login", 5, counted)}), func(_ *http.Request, g *core.Guard) {
				s.want(t)
				expect.True(t, g.Watches() && s.taken[0].Hold, "watches: %v; held: %v", g.Watches(), s.taken[0].Hold)
				g.Settle(tt.outcome)
				g.Settle(core.Outcome{Status: 500})
				expect.True(t, !g.Watches(), "it watches after the end")
			})
			s.want(t, tt.want)
			expect.Equal(t, calls, 1, "calls of CostAfter")
		})
	}
}

func TestCostAfterGetsTheRequestThatWasPassedOn(t *testing.T) {
	var seen *http.Request
	l := withStore(new(settler), []core.Rule{final("r", 5, func(r *http.Request, _ core.Outcome) int { seen = r; return 0 })})
	serve(t, l, func(r *http.Request, g *core.Guard) {
		g.Settle(core.Outcome{})
		expect.Equal(t, seen, r, "CostAfter got another request than the handler")
	})
}

func TestOnlyRulesWithCostAfterAreWatched(t *testing.T) {
	s := new(settler)
	serve(t, withStore(s, []core.Rule{perHour("r", 5)}), func(_ *http.Request, g *core.Guard) {
		expect.True(t, !g.Watches() && !s.taken[0].Hold, "watches: %v; held: %v", g.Watches(), s.taken[0].Hold)
		g.Settle(core.Outcome{Status: 500})
	})
	s.want(t)
	serve(t, inMemory("1 at once", nil), func(_ *http.Request, g *core.Guard) {
		expect.True(t, g.Admitted() && !g.Watches(), "a request in flight: admitted %t, watched", g.Admitted())
	})
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
		expect.True(t, err == nil && !inner.Watches(), "%v; the inner one watches: %v", err, inner.Watches())
		inner.Settle(core.Outcome{Status: 500})
		inner.End()
		s.want(t)
		g.Settle(core.Outcome{Status: 200})
	})
	s.want(t, "login 1→0")
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
			take()
			expect.Equal(t, s.taken[0].Cost, tt.want, "%s: %s asked for", tt.why, name)
			expect.True(t, name != "Peek" || !s.taken[0].Hold, "a peek holds something")
		}
		s.taken = nil
		l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Cost: 500})
		expect.Equal(t, s.taken[0].Cost, 500, "%s: Take asked for, without Hold", tt.why)
	}
}

func TestStoreOfALimiter(t *testing.T) {
	store, rules := new(core.MemoryStore), []core.Rule{core.PerHour(1).By(keyK)}
	expect.Equal(t, core.Must(core.New(rules, core.WithStore(store))).Store(), core.Store(store), "the store that was given")
	_, ok := core.Must(core.New(rules)).Store().(*core.MemoryStore)
	expect.True(t, ok, "a limiter without WithStore has no MemoryStore")
	expect.Equal(t, new(core.Limiter).Store(), nil, "of a limiter that New has not made")
}

func TestObserversOfSettlements(t *testing.T) {
	s, seen := new(settler), new(recorder)
	two := []core.Rule{final("a", 50, func(*http.Request, core.Outcome) int { return 3 }), final("b", 50, func(*http.Request, core.Outcome) int { return -4 })}
	two[1].Cost = cost(5)
	l := withStore(s, append(two, perHour("plain", 9)), core.WithObserver(seen.observe))
	var request *http.Request
	serve(t, l, func(r *http.Request, g *core.Guard) {
		request = r
		g.Settle(core.Outcome{Cost: 77, Status: 201, Bytes: 10})
	})
	s.want(t, "a 1→3", "b 5→5")
	must.True(t, len(seen.seen) == 2 && seen.seen[0].Outcome == nil, "observers saw %+v, want the decision, then the settlement", seen.seen)
	o := seen.seen[1]
	expect.True(t, *o.Outcome == (core.Outcome{Cost: 6, Status: 201, Bytes: 10}) && o.Charged == 8 && o.Request == request && o.Allowed && len(o.Results) == 3,
		"got %+v with outcome %+v", o, o.Outcome)
	wantError(t, o.Err, core.ErrInvalid, `spillgate: cost after rule "b": cost must not be negative, got -4`)
	expect.True(t, len(o.Claims) == 2 && o.Claims[0].Cost == 1 && o.Claims[1].Cost == 5 && o.Claims[0].Hold,
		"got claims %+v, want what was held", o.Claims)
}

func TestSumsOfHugeCostsDoNotOverflow(t *testing.T) {
	seen := new(recorder)
	l := withStore(new(core.MemoryStore), []core.Rule{final("a", 50, costOf), final("b", 50, costOf)}, core.WithObserver(seen.observe))
	serve(t, l, func(r *http.Request, g *core.Guard) {
		expect.True(t, core.SetCost(r.Context(), "a", math.MaxInt) && core.SetCost(r.Context(), "b", 2), "SetCost has no effect")
		g.Settle(core.Outcome{})
	})
	one := core.Claim{Rule: "places", Key: "k", Limits: []core.Limit{core.AtOnce(2)}, Cost: math.MaxInt, Hold: true}
	expect.NoError(t, l.Refund(t.Context(), must.Get(l.Take(t.Context(), one, one))(t)), "Refund")
	for i, want := range []int{math.MaxInt, 0} {
		o := seen.seen[2*i+1]
		expect.True(t, o.Outcome.Cost == math.MaxInt && o.Charged == want, "the cost is %d and %d is charged, want %d and %d", o.Outcome.Cost, o.Charged, math.MaxInt, want)
	}
}

func TestFailingCostAfterIsLogged(t *testing.T) {
	log := expect.KeepLog(t)
	l := withStore(new(settler), []core.Rule{final("login", 5, func(*http.Request, core.Outcome) int { panic("ouch") })})
	for range 3 {
		serve(t, l, func(_ *http.Request, g *core.Guard) { g.Settle(core.Outcome{}) })
	}
	wantLines(t, log.String(), `rule=login err="spillgate: cost after rule \"login\": a callback panicked: ouch" stack=`)
}

// If the connection to the store is cut between Take and Settle, rules with FailLocal charge the fallback, unless the request is free.
func TestStoreCutBetweenTakeAndSettle(t *testing.T) {
	for _, row := range []struct {
		mode          core.FailureMode
		status, final int
		want          []string // in the fallback
	}{
		{core.FailLocal, 401, 2, []string{"login 2→2"}},
		{core.FailLocal, 200, 0, nil},
		{core.FailOpen, 401, 2, nil},
		{core.FailClosed, 401, 2, nil},
	} {
		s, fallback, seen := &settler{err: errUnreachable}, new(settler), new(recorder)
		rule := final("login", 5, core.Failures)
		rule.OnFailure, rule.Cost = row.mode, cost(2)
		l := withStore(s, []core.Rule{rule}, core.WithFallback(fallback), core.WithObserver(seen.observe))
		serve(t, l, func(_ *http.Request, g *core.Guard) { g.Settle(core.Outcome{Status: row.status}) })
		s.want(t, fmt.Sprint("login 2→", row.final))
		fallback.want(t, row.want...)
		for _, c := range fallback.settled {
			expect.True(t, c.At.IsZero() && c.Held, "the fallback is to release nothing: %+v", c)
		}
		if o := seen.seen[1]; !errors.Is(o.Err, core.ErrUnavailable) || o.Charged != row.final {
			t.Errorf("mode %v: observers saw %+v, want the failure", row.mode, o)
		}
	}
}

func TestRuleWithoutCostAfterSettlesWithoutAnError(t *testing.T) {
	s, seen := new(settler), new(recorder)
	l := withStore(s, []core.Rule{{Name: "uploads", Key: keyK, Limits: []core.Limit{core.AtOnce(2)}}}, core.WithObserver(seen.observe))
	serve(t, l, func(*http.Request, *core.Guard) {})
	s.want(t, "uploads 1→1")
	o := seen.seen[1]
	expect.True(t, o.Err == nil && o.Charged == 1, "got %+v, %v", o, o.Err)
}

func TestFallbackThatFailsIsAskedOnce(t *testing.T) {
	fallback := &settler{err: errUnreachable}
	l := withStore(&faulty{fault: unreachable}, []core.Rule{final("login", 5, core.Failures)}, core.WithFallback(fallback))
	serve(t, l, func(_ *http.Request, g *core.Guard) { g.Settle(core.Outcome{Status: 401}) })
	fallback.want(t, "login 1→1")
}

func TestHeldInTheFallbackIsSettledThere(t *testing.T) {
	s, fallback := &faulty{fault: unreachable}, new(settler)
	l := withStore(s, []core.Rule{final("login", 5, core.Failures)}, core.WithFallback(fallback))
	serve(t, l, func(_ *http.Request, g *core.Guard) {
		s.fault = nil // the store is back
		g.Settle(core.Outcome{Status: 401})
	})
	fallback.want(t, "login 1→1")
	expect.Equal(t, s.calls.Load(), 1, "calls of the store (only the call of Take)")
}

// handle guards a request with l. Its handler takes a while and responds with a status. handle reports whether the handler ran.
func handle(l *core.Limiter, takes time.Duration, status int) bool {
	g, err := l.Guard(context.Background(), get("/"), nil)
	if err != nil {
		return false
	}
	defer g.End()
	if !g.Admitted() {
		return false
	}
	time.Sleep(takes)
	g.Settle(core.Outcome{Status: status})
	return true
}

// parallel has n requests handled at the same time and returns how many handlers ran.
func parallel(l *core.Limiter, n int, takes time.Duration, status int) int {
	var ran atomic.Int64
	var requests sync.WaitGroup
	for range n {
		requests.Go(func() {
			if handle(l, takes, status) {
				ran.Add(1)
			}
		})
	}
	requests.Wait()
	return int(ran.Load())
}

func inMemory(limits string, f func(*http.Request, core.Outcome) int) *core.Limiter {
	return core.Must(core.New([]core.Rule{{Name: "r", Key: keyK, Limits: core.MustParseLimits(limits), CostAfter: f}}))
}

func TestParallelFailuresRunAsManyHandlersAsTheLimit(t *testing.T) {
	for _, limit := range []string{"5/15m", "5/15m;fixed-window", "5/15m;sliding-window", "5/15m;sliding-log"} {
		synctest.Test(t, func(t *testing.T) {
			l := inMemory(limit, core.Failures)
			expect.Equal(t, parallel(l, 1000, 100*time.Millisecond, 401), 5, "%s: handlers ran", limit)
			time.Sleep(time.Minute)
			expect.True(t, !handle(l, 0, 401), "%s: a sixth handler ran", limit)
		})
	}
}

// Twenty logins overlap at any time, for an hour: none fails, so none is denied.
func TestOverlappingSuccessesAreFree(t *testing.T) {
	testpass.Thorough(t)
	synctest.Test(t, func(t *testing.T) {
		l := inMemory("20/15m", core.Failures)
		var denied atomic.Int64
		var requests sync.WaitGroup
		for range 72_000 {
			requests.Go(func() {
				if !handle(l, 950*time.Millisecond, 200) {
					denied.Add(1)
				}
			})
			time.Sleep(50 * time.Millisecond)
		}
		requests.Wait()
		expect.AtMost(t, denied.Load(), 0, "of 72,000 were denied")
	})
}

func TestFinalCostsAboveTheLimitAreOwed(t *testing.T) {
	for _, tt := range []struct {
		estimate, ran, remaining int
		wait                     time.Duration // for one more
	}{
		{1, 5, 0, 5*time.Minute + 38400*time.Millisecond},
		{1024, 1, 42, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			finals := make(chan int, 5)
			for _, n := range []int{58, 80, 175, 175, 175} {
				finals <- n
			}
			rule := core.Rule{Name: "tokens", Key: keyK, Limits: []core.Limit{core.PerMinute(100)}, Cost: cost(tt.estimate),
				CostAfter: func(*http.Request, core.Outcome) int { return <-finals }}
			l := core.Must(core.New([]core.Rule{rule}))
			expect.Equal(t, parallel(l, 5, time.Second, 200), tt.ran, "estimate %d: ran", tt.estimate)
			d, err := l.Take(t.Context(), core.Claim{Rule: "tokens", Key: "k", Peek: true})
			expect.True(t, err == nil && d.Results[0].Remaining == tt.remaining && d.RetryAfter() == tt.wait,
				"estimate %d: got %+v, %v; want %d remaining and a wait of %v", tt.estimate, d, err, tt.remaining, tt.wait)
		})
	}
	l := core.Must(core.New([]core.Rule{{Name: "r", Limits: core.MustParseLimits("5/d;fixed-window")}}))
	must.Do(t, l.Settle(t.Context(), must.Get(l.Take(t.Context(), job))(t), "r", 9))
	r := must.Get(l.Take(t.Context(), job))(t).Results[0]
	expect.True(t, r.Over == 4 && r.Quota() == 9 && r.Remaining == 0, "%+v, want 4 used beyond the capacity", r)
}

func TestDeniedRequestsHoldNothing(t *testing.T) {
	asked := false
	l := core.Must(core.New([]core.Rule{final("login", 0, func(*http.Request, core.Outcome) int { asked = true; return 1 })}))
	serve(t, l, func(_ *http.Request, g *core.Guard) {
		expect.True(t, !g.Admitted() && !g.Watches(), "admitted: %v; watches: %v", g.Admitted(), g.Watches())
		g.Settle(core.Outcome{Status: 429})
	})
	expect.True(t, !asked, "CostAfter was asked about a denied request")
}
