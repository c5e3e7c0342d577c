package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A settler is a store that admits everything and remembers what it was asked to settle. Its clock is that of the test.
type settler struct {
	mu      sync.Mutex
	taken   []core.Claim
	settled []core.Claim
	err     error // of Settle
	takes   time.Duration
}

func (s *settler) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, claims...)
	for _, c := range claims {
		for _, l := range c.Limits {
			dst = append(dst, core.Result{Rule: c.Rule, Limit: l, Allowed: true, At: time.Now()})
		}
	}
	return dst, nil
}

func (s *settler) Settle(_ context.Context, claims []core.Claim) error {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range claims {
		if claims[i].Renew {
			claims[i].At = time.Now()
		}
	}
	s.settled = append(s.settled, claims...)
	return s.err
}

func (*settler) Reset(context.Context, []core.Claim) error { return nil }

// finals returns what was settled, such as "login k 1→0", "renew login k".
func (s *settler) finals() (text []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.settled {
		switch {
		case c.Renew:
			text = append(text, "renew "+c.Rule)
		case c.Ban > 0:
			text = append(text, fmt.Sprintf("ban %s %v", c.Rule, c.Ban))
		case c.Hold:
			text = append(text, fmt.Sprintf("%s %d→%d", c.Rule, c.Cost, c.Final))
		default:
			text = append(text, fmt.Sprintf("charged %s %d→%d", c.Rule, c.Cost, c.Final))
		}
	}
	return text
}

func (s *settler) want(t *testing.T, want ...string) {
	t.Helper()
	if got := s.finals(); !slices.Equal(got, want) {
		t.Errorf("settled %q, want %q", got, want)
	}
}

// final returns a rule whose Final is f.
func final(name string, n int, f func(*http.Request, core.Outcome) int) core.Rule {
	r := perHour(name, n)
	r.Final = f
	return r
}

// costOf is a Final that says Outcome.Cost.
func costOf(_ *http.Request, o core.Outcome) int { return o.Cost }

// serve has l guard a request, which handle serves, and returns what End was called after.
func serve(t *testing.T, l *core.Limiter, handle func(r *http.Request, g *core.Guard)) {
	t.Helper()
	g, err := l.Guard(context.Background(), get("/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.End()
	handle(g.Request(), &g)
}

func TestFinalIsChargedWhenTheRequestEnds(t *testing.T) {
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

func TestFinalSeesTheRequestThatWasPassedOn(t *testing.T) {
	var seen *http.Request
	l := withStore(new(settler), []core.Rule{final("r", 5, func(r *http.Request, _ core.Outcome) int { seen = r; return 0 })})
	serve(t, l, func(r *http.Request, g *core.Guard) {
		g.Settle(core.Outcome{})
		if seen != r {
			t.Error("Final got another request than the handler")
		}
	})
}

func TestOnlyRulesWithFinalAreWatched(t *testing.T) {
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

func TestAnAdapterThatDoesNotWatchFailsClosed(t *testing.T) {
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
		{"without Final it is no estimate", []core.Limit{core.PerHour(100)}, nil, 500},
	} {
		s := new(settler)
		rule := core.Rule{Name: "r", Key: keyK, Limits: tt.limits, Cost: cost(500), Final: tt.final}
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

func TestSetCost(t *testing.T) {
	s := new(settler)
	outer := withStore(s, []core.Rule{final("tokens", 100_000, costOf), perHour("plain", 5)})
	inner := withStore(s, []core.Rule{final("tokens", 100_000, costOf), final("other", 9, costOf)})
	var ctx context.Context
	serve(t, outer, func(r *http.Request, g *core.Guard) {
		in, err := inner.Guard(r.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx = in.Request().Context()
		for _, step := range []struct {
			why, rule string
			cost      int
			want      bool
		}{
			{"a rule under way", "tokens", 58, true},
			{"the last word counts", "tokens", 175, true},
			{"a negative cost", "tokens", -1, false},
			{"a rule without Final", "plain", 5, false},
			{"a rule that there is not", "typo", 5, false},
			{"nothing at all", "other", 0, true},
		} {
			if got := core.SetCost(ctx, step.rule, step.cost); got != step.want {
				t.Errorf("%s: got %v", step.why, got)
			}
		}
		in.Settle(core.Outcome{Status: 200})
		in.End()
		if !core.SetCost(ctx, "tokens", 200) || core.SetCost(ctx, "other", 3) {
			t.Error("after the end of the inner limiter only the outer one is under way")
		}
		g.Settle(core.Outcome{Status: 200})
	})
	s.want(t, "tokens 1→175", "other 1→0", "tokens 1→200")
	if core.SetCost(ctx, "tokens", 1) || core.SetCost(context.Background(), "tokens", 1) {
		t.Error("SetCost did something after the end of the request, or without one")
	}
}

func TestSetCostIsSafeForConcurrentUse(t *testing.T) {
	s := new(settler)
	l := withStore(s, []core.Rule{final("tokens", 100_000, costOf)})
	var wg sync.WaitGroup
	serve(t, l, func(r *http.Request, g *core.Guard) {
		for i := range 8 {
			wg.Go(func() {
				for n := range 1000 {
					core.SetCost(r.Context(), "tokens", i*1000+n)
				}
			})
		}
		g.Settle(core.Outcome{})
	})
	wg.Wait()
	if len(s.settled) != 1 {
		t.Errorf("settled %v", s.finals())
	}
}

func TestHoldsOfLongRequestsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(settler)
		l := withStore(s, []core.Rule{final("r", 5, core.Failures), perHour("plain", 5)})
		serve(t, l, func(_ *http.Request, g *core.Guard) {
			begun := time.Now()
			time.Sleep(20*time.Second - 1)
			s.want(t)
			for i := range 3 {
				time.Sleep(1)
				synctest.Wait()
				if n := len(s.finals()); n != i+1 {
					t.Fatalf("renewed %d times after %v", n, time.Since(begun))
				}
				time.Sleep(20*time.Second - 1)
			}
			g.Settle(core.Outcome{Status: 200})
		})
		renewed := s.settled[2].At // as the store set it
		end := s.settled[3]
		if end.Renew || !end.At.Equal(renewed) || end.Final != 0 {
			t.Errorf("settled %+v, want the instant of the last renewal, %v", end, renewed)
		}
		time.Sleep(time.Hour)
		s.want(t, "renew r", "renew r", "renew r", "r 1→0")
	})
}

func TestEndWaitsForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &settler{takes: 10 * time.Millisecond}
		l := withStore(s, []core.Rule{final("r", 5, core.Failures)})
		serve(t, l, func(_ *http.Request, g *core.Guard) {
			time.Sleep(20*time.Second + 5*time.Millisecond) // a renewal is under way
			g.Settle(core.Outcome{Status: 200})
		})
		s.want(t, "renew r", "r 1→0")
		if !s.settled[1].At.Equal(s.settled[0].At) {
			t.Errorf("settled at %v, want the instant of the renewal, %v", s.settled[1].At, s.settled[0].At)
		}
		time.Sleep(time.Hour)
		s.want(t, "renew r", "r 1→0")
	})
}

func TestRenewalIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &settler{err: errRefused}
		l := withStore(s, []core.Rule{final("r", 5, core.Failures)})
		serve(t, l, func(_ *http.Request, g *core.Guard) {
			begun := time.Now()
			time.Sleep(21 * time.Second)
			s.mu.Lock()
			s.err = nil
			s.mu.Unlock()
			time.Sleep(20 * time.Second)
			synctest.Wait()
			s.want(t, "renew r", "renew r")
			if !s.settled[1].At.Equal(begun.Add(40 * time.Second)) {
				t.Errorf("renewed at %v", s.settled[1].At)
			}
			g.Settle(core.Outcome{Status: 200})
		})
	})
}

func TestJobsHoldRenewAndSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := new(settler), new(tally)
		l := withStore(s, []core.Rule{final("r", 50, core.Failures), perHour("plain", 50)}, core.WithObserver(seen.observe))
		d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Cost: 7, Hold: true}, core.Claim{Rule: "plain", Key: "k", Cost: 3})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // nobody renews it by itself
		s.want(t)
		if err := l.Renew(t.Context(), d); err != nil || !s.settled[0].At.Equal(time.Now()) {
			t.Fatalf("%v; renewed %+v", err, s.settled)
		}
		if err := errors.Join(l.Settle(t.Context(), d, "r", 9), l.Settle(t.Context(), d, "r", 1), l.Renew(t.Context(), d)); err != nil {
			t.Fatal(err)
		}
		if err := l.Settle(t.Context(), d, "", 0); err != nil {
			t.Fatal(err)
		}
		s.want(t, "renew r", "r 7→9", "charged plain 3→0")
		if !s.settled[1].At.Equal(time.Now()) {
			t.Errorf("settled at %v, want the instant of the renewal", s.settled[1].At)
		}
		if len(seen.seen) != 2 || seen.seen[1].Outcome == nil || seen.seen[1].Outcome.Cost != 7 || seen.seen[1].Final != 9 || seen.seen[1].Request != nil {
			t.Errorf("observers saw %+v, want the decision and the settlement of what was held", seen.seen)
		}
	})
}

func TestObserversOfSettlements(t *testing.T) {
	s, seen := new(settler), new(tally)
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
	if *o.Outcome != (core.Outcome{Cost: 6, Status: 201, Bytes: 10}) || o.Final != 8 || o.Request != request || !o.Allowed || len(o.Results) != 3 {
		t.Errorf("got %+v with outcome %+v", o, o.Outcome)
	}
	wantError(t, o.Err, core.ErrInvalid, `spillgate: final of rule "b": cost must not be negative, got -4`)
	if len(o.Claims) != 2 || o.Claims[0].Final != 3 || o.Claims[1].Final != 5 || !o.Claims[0].Hold {
		t.Errorf("got claims %+v, want what was held, with its final cost", o.Claims)
	}
}

func TestFailingFinalIsLogged(t *testing.T) {
	log := keepJournal(t)
	l := withStore(new(settler), []core.Rule{final("login", 5, func(*http.Request, core.Outcome) int { panic("ouch") })})
	for range 3 {
		serve(t, l, func(_ *http.Request, g *core.Guard) { g.Settle(core.Outcome{}) })
	}
	wantLines(t, log.String(), `rule=login err="spillgate: final of rule \"login\": a callback panicked: ouch" stack=`)
}

// When the store is cut off between Take and Settle, the fallback is charged for rules that fail local.
func TestStoreCutBetweenTakeAndSettle(t *testing.T) {
	for m, want := range map[core.FailureMode][]string{
		core.FailLocal: {"login 2→2"}, core.FailOpen: nil, core.FailClosed: nil,
	} {
		s, fallback, seen := &settler{err: errRefused}, new(settler), new(tally)
		rule := final("login", 5, core.Failures)
		rule.OnFailure, rule.Cost = m, cost(2)
		l := withStore(s, []core.Rule{rule}, core.WithFallback(fallback), core.WithObserver(seen.observe))
		serve(t, l, func(_ *http.Request, g *core.Guard) { g.Settle(core.Outcome{Status: 401}) })
		s.want(t, "login 2→2")
		fallback.want(t, want...)
		for _, c := range fallback.settled {
			if !c.At.IsZero() || !c.Hold {
				t.Errorf("the fallback is to release nothing: %+v", c)
			}
		}
		if o := seen.seen[1]; !errors.Is(o.Err, core.ErrUnavailable) || o.Final != 2 {
			t.Errorf("mode %v: observers saw %+v, want the failure", m, o)
		}
	}
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
		t.Errorf("%d calls of the store, want that of Take alone", n)
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
		t.Error("Final was asked about a denied request")
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

func TestBan(t *testing.T) {
	s, fallback := new(settler), new(settler)
	l := withStore(s, []core.Rule{perHour("login", 5)}, core.WithFallback(fallback))
	if err := l.Ban(t.Context(), "login", "k", time.Hour); err != nil {
		t.Fatal(err)
	}
	s.want(t, "ban login 1h0m0s")
	fallback.want(t, "ban login 1h0m0s")
	for _, row := range []struct {
		rule, key string
		d         time.Duration
		kind      error
		want      string
	}{
		{"typo", "k", time.Hour, core.ErrInvalid, `spillgate: ban: there is no rule "typo"`},
		{"login", "", time.Hour, core.ErrNoKey, `spillgate: ban of rule "login": no key`},
		{"login", "k", 0, core.ErrInvalid, "spillgate: ban: duration must be between 0 and"},
		{"login", "k", -1, core.ErrInvalid, "got -1ns"},
		{"login", "k", 11 * 365 * 24 * time.Hour, core.ErrInvalid, "got 96360h0m0s"},
	} {
		wantError(t, l.Ban(t.Context(), row.rule, row.key, row.d), row.kind, row.want)
	}
	s.err = errRefused
	err := l.Ban(t.Context(), "login", "other", time.Hour)
	if !errors.Is(err, core.ErrUnavailable) || !strings.HasPrefix(err.Error(), "spillgate: store unavailable: ") {
		t.Errorf("got %v", err)
	}
	fallback.want(t, "ban login 1h0m0s", "ban login 1h0m0s")
}

func TestRateZeroIsNotMadePossible(t *testing.T) {
	rule := final("r", 0, costOf)
	rule.Cost = cost(10)
	d, err := core.Must(core.New([]core.Rule{rule})).Peek(get("/"))
	if err != nil || d.Allowed || d.Results[0].RetryAfter != core.Never {
		t.Errorf("got %+v, %v; want Never", d, err)
	}
}
