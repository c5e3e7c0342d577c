package core_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

type word struct{}

func perHour(name string, n int) core.Rule {
	return core.Rule{Name: name, Key: keyK, Limits: []core.Limit{core.PerHour(n)}}
}

func TestGuardChargesOnce(t *testing.T) {
	seen := new(recorder)
	l := core.Must(core.New([]core.Rule{perHour("a", 5)}, core.WithObserver(seen.observe)))
	r, first, err := guard(l, get("/"))
	must.True(t, err == nil && first.Results[0].Remaining == 4, "got %+v, %v", first, err)
	again, err := l.Guard(r.Context(), r, nil)
	if d := again.Decision(); err != nil || !again.Admitted() || !reflect.DeepEqual(d, first) {
		t.Errorf("guarded twice: got %+v, %v; want the first decision", d, err)
	}
	third, err := l.Check(r)
	expect.Equal(t, third.At, first.At, "instant of the third decision")
	expect.True(t, err == nil && third.Results[0].Remaining == 4, "checked after: got %+v, %v; want the first decision", third, err)
	expect.Equal(t, len(seen.seen), 1, "how often observers were called")
}

// TestWithoutDecision decides a second request in the context of the first, as the tools of a session are called.
func TestWithoutDecision(t *testing.T) {
	l := core.Must(core.New([]core.Rule{perHour("a", 5)}))
	r, _, err := guard(l, get("/"))
	must.Do(t, err)
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), word{}, 1))
	apart := core.WithoutDecision(ctx)
	if _, ok := core.FromContext(apart); ok || apart.Value(word{}) != 1 {
		t.Errorf("a decision: %v, the value %v; want no decision, and the value", ok, apart.Value(word{}))
	}
	g, err := l.Guard(apart, get("/"), nil)
	if d := g.Decision(); err != nil || len(d.Results) != 1 || d.Results[0].Remaining != 3 {
		t.Errorf("the second request: got %+v, %v; want 3 left", d, err)
	}
	again, err := l.Guard(g.Request().Context(), g.Request(), nil)
	if d := again.Decision(); err != nil || d.Results[0].Remaining != 3 {
		t.Errorf("the second request, guarded twice: got %+v, %v; want the first decision", d, err)
	}
	cancel()
	expect.Fails(t, apart.Err(), "the context does not end")
	expect.Equal(t, core.WithoutDecision(t.Context()), t.Context(), "a context without a decision is copied")
}

// guardTwice has two limiters guard a request, the second one second later.
func guardTwice(t *testing.T, outer, inner *core.Limiter) (joined, first, second core.Decision) {
	t.Helper()
	r, first, err := guard(outer, get("/"))
	must.Do(t, err)
	time.Sleep(time.Second)
	g := must.Get(inner.Guard(r.Context(), r, nil))(t)
	r, joined = g.Request(), g.Decision()
	if carried, ok := core.FromContext(r.Context()); !ok || !reflect.DeepEqual(carried, joined) {
		t.Errorf("the context carries %+v, want what Guard says: %+v", carried, joined)
	}
	if second, _ = inner.Check(r); second.Allowed != g.Admitted() {
		t.Errorf("admitted: %v, want the inner limiter's own decision: %+v", g.Admitted(), second)
	}
	if d, _ := outer.Check(r); !reflect.DeepEqual(d, first) {
		t.Errorf("the outer limiter got %+v, want its own decision back", d)
	}
	return joined, first, second
}

func TestJoinOfTwoLimiters(t *testing.T) {
	dryRun, skipped := dry(perHour("dry", 5)), perHour("skipped", 1)
	skipped.Match = func(*http.Request) bool { return false }
	for _, tt := range []struct {
		why              string
		outer, inner     core.Rule
		allowed, atInner bool
		results          int
	}{
		{"the inner one is tighter", perHour("a", 100), perHour("b", 2), true, true, 2},
		{"the outer one is tighter", perHour("a", 2), perHour("b", 100), true, false, 2},
		{"ties go to the outer one", perHour("a", 5), perHour("b", 5), true, false, 2},
		{"one that makes requests wait", perHour("a", 100), waiting("2/h", time.Hour), true, true, 2},
		{"of two that are used up, the inner one for longer", waiting("1/m", 0), perHour("b", 1), true, true, 2},
		{"a denial is tighter", perHour("a", 1), perHour("b", 0), false, true, 2},
		{"a denial by the outer one stays", perHour("a", 0), perHour("b", 5), false, false, 2},
		{"a dry run constrains nothing", perHour("a", 100), dryRun, true, false, 2},
		{"nor does it inside out", dryRun, perHour("b", 100), true, true, 2},
		{"a limiter without claims knows no time", skipped, perHour("b", 5), true, true, 1},
		{"even beside a dry run", skipped, dryRun, true, true, 1},
		{"and the other way round", perHour("a", 5), skipped, true, false, 1},
	} {
		t.Run(tt.why, inBubble(func(t *testing.T) {
			outer, inner := core.Must(core.New([]core.Rule{tt.outer})), core.Must(core.New([]core.Rule{tt.inner}))
			joined, first, second := guardTwice(t, outer, inner)
			want := first.At
			if tt.atInner {
				want = second.At
			}
			expect.True(t, joined.Allowed == tt.allowed && joined.At.Equal(want) && len(joined.Results) == tt.results,
				"got %+v, want allowed %v at %v", joined, tt.allowed, want)
		}))
	}
}

func TestJoinKeepsTheFirstFailure(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	ctx := core.NewContext(t.Context(), core.Decision{Allowed: true})
	ctx = core.NewContext(ctx, core.Decision{Allowed: true, Degraded: one})
	ctx = core.NewContext(ctx, core.Decision{Allowed: true, Degraded: two})
	d, _ := core.FromContext(ctx)
	expect.Equal(t, d.Degraded, one, "d.Degraded")
}

// TestJoinWaitsForTheLatestTurn joins the decisions of two stores, of which the second is a second ahead.
func TestJoinWaitsForTheLatestTurn(t *testing.T) {
	for _, row := range [][3]time.Duration{{5, 3, 5}, {5, 7, 8}, {0, 7, 8}, {5, 0, 5}, {0, 0, 0}} {
		ctx := core.NewContext(t.Context(), core.Decision{Allowed: true, At: time.Unix(9, 0), Wait: row[0] * time.Second})
		ctx = core.NewContext(ctx, core.Decision{Allowed: true, At: time.Unix(10, 0), Wait: row[1] * time.Second})
		d, _ := core.FromContext(ctx)
		expect.Equal(t, d.Wait, row[2]*time.Second, "%v: waits from %v", row, d.At)
		d, _ = core.FromContext(core.NewContext(ctx, core.Decision{}))
		expect.True(t, !d.Allowed && d.Wait == 0, "%v, then denied: %+v", row, d)
	}
}

// TestRefundGoesToEveryLimiterThatDecided joins three decisions, two of which were joined before.
func TestRefundGoesToEveryLimiterThatDecided(t *testing.T) {
	var limiters []*core.Limiter
	for range 3 {
		limiters = append(limiters, core.Must(core.New([]core.Rule{perHour("r", 5)})))
	}
	r, _, _ := guard(limiters[0], get("/"))
	r, _, _ = guard(limiters[1], r)
	two, _ := core.FromContext(r.Context())
	alone, _ := limiters[2].Check(get("/"))
	all, _ := core.FromContext(core.NewContext(core.NewContext(t.Context(), alone), two))
	must.Equal(t, len(all.Results), 3, "%+v (the results of three)", all)
	for i, l := range limiters {
		must.Do(t, l.Refund(t.Context(), all))
		expect.Equal(t, remaining(t, l, "r"), 5, "limiter %d: left", i+1)
	}
}

// TestJoinWithADecisionOfNoLimiter joins a decision to one that no limiter made: it still belongs to its limiter.
func TestJoinWithADecisionOfNoLimiter(t *testing.T) {
	l := core.Must(core.New([]core.Rule{perHour("a", 5)}))
	d, _ := l.Check(get("/"))
	word := core.NewContext(t.Context(), core.Decision{Allowed: true})
	joined, _ := core.FromContext(core.NewContext(word, d))
	again, err := l.Check(get("/").WithContext(core.NewContext(t.Context(), joined)))
	expect.True(t, err == nil && len(again.Results) == 1 && again.Results[0].Remaining == 4,
		"got %+v, %v; want the first decision", again, err)
	err = l.Refund(t.Context(), joined)
	expect.True(t, err == nil && remaining(t, l, "a") == 5, "the joined decision gave nothing back, %v", err)
}

func TestInnerLimiterSeesTheOuterDecision(t *testing.T) {
	var seen core.Decision
	look := func(r *http.Request) (string, error) {
		seen, _ = core.FromContext(r.Context())
		return "k", nil
	}
	r, outer, _ := guard(core.Must(core.New([]core.Rule{perHour("a", 5)})), get("/"))
	guard(core.Must(core.New([]core.Rule{core.PerHour(5).By(look)})), r)
	expect.Equal(t, seen.At, outer.At, "instant of the decision")
	idle := perHour("a", 5)
	idle.Match = func(*http.Request) bool { return false }
	d, err := core.Must(core.New([]core.Rule{idle})).Check(r)
	expect.True(t, err == nil && d.Allowed && len(d.Results) == 0, "%+v, %v of a limiter without a rule for the request", d, err)
	expect.True(t, seen.Allowed && len(seen.Results) == 1, "got %+v, want what the outer limiter has decided", seen)
}

func TestOuterRulesOfSameNameCountsTheLimitersFurtherOut(t *testing.T) {
	outer, inner := core.Must(core.New([]core.Rule{perHour("r", 5)})), core.Must(core.New([]core.Rule{perHour("r", 5), perHour("own", 5)}))
	r, alone, _ := guard(outer, get("/"))
	r, _, _ = guard(inner, r)
	both, _ := core.FromContext(r.Context())
	for i, want := range map[int]int{-1: 0, 0: 0, 1: 1, 2: 0, 3: 0} {
		expect.Equal(t, both.OuterRulesOfSameName(i), want, "result %d of two limiters", i)
		expect.Equal(t, alone.OuterRulesOfSameName(i)+(core.Decision{}).OuterRulesOfSameName(i), 0, "result %d of one limiter or none", i)
	}
}

// TestOuterRulesCountEachLimiterOnce asks the outer limiter twice, although its rule of the same name does not apply, and then
// the inner limiter.
func TestOuterRulesCountEachLimiterOnce(t *testing.T) {
	l, other, inner := apiAndLogin(), core.Must(core.New([]core.Rule{perHour("login", 50)})), core.Must(core.New([]core.Rule{perHour("login", 5)}))
	r, _, _ := guard(l, get("/start"))
	r, _, _ = guard(other, r)
	r, _, _ = guard(l, at(r, "/login"))
	_, d, err := guard(inner, r)
	var names []string
	var outer []int
	for i, result := range d.Results {
		names, outer = append(names, result.Rule), append(outer, d.OuterRulesOfSameName(i))
	}
	expect.True(t, err == nil && slices.Equal(names, []string{"api", "login", "login", "login"}) && slices.Equal(outer, []int{0, 1, 0, 2}),
		"got %q with %v limiters further out, %v", names, outer, err)
}

// apiAndLogin returns a limiter of 100 requests of any kind, of which 5 may be logins.
func apiAndLogin(opts ...core.Option) *core.Limiter {
	login := perHour("login", 5)
	login.Routes = []string{"/login"}
	return core.Must(core.New([]core.Rule{perHour("api", 100), login}, opts...))
}

func at(r *http.Request, path string) *http.Request {
	copied := r.Clone(r.Context())
	copied.URL.Path = path
	return copied
}

// TestNewRouteIsDecided guards a request, routes it to the login in each possible way, and guards it again.
func TestNewRouteIsDecided(t *testing.T) {
	for why, route := range map[string]func(*http.Request) *http.Request{
		"the same request": func(r *http.Request) *http.Request { r.URL.Path = "/login"; return r },
		"another URL":      func(r *http.Request) *http.Request { r.URL = at(r, "/login").URL; return r },
		"a clone":          func(r *http.Request) *http.Request { return at(r, "/login") },
		"a context of a context": func(r *http.Request) *http.Request {
			return at(r.WithContext(context.WithValue(r.Context(), word{}, 1)), "/login")
		},
		"a context in place": func(r *http.Request) *http.Request {
			*r = *r.WithContext(context.WithoutCancel(r.Context()))
			return at(r, "/login")
		},
		"a new request": func(r *http.Request) *http.Request { return get("/login").WithContext(r.Context()) },
		"StripPrefix": func(r *http.Request) (stripped *http.Request) {
			r.URL.Path = "/v1/login"
			http.StripPrefix("/v1", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stripped = r })).ServeHTTP(httptest.NewRecorder(), r)
			return stripped
		},
	} {
		t.Run(why, func(t *testing.T) {
			seen := new(recorder)
			l := apiAndLogin(core.WithObserver(seen.observe))
			for i := range 7 {
				outer, first, err := guard(l, get("/start"))
				must.True(t, err == nil && len(first.Results) == 1 && first.Results[0].Remaining == 99-i,
					"request %d: got %+v, %v", i+1, first, err)
				r := route(outer)
				g, err := l.Guard(r.Context(), r, nil)
				d, admitted := g.Decision(), i < 5
				must.True(t, err == nil && g.Admitted() == admitted && d.Allowed == admitted && len(d.Results) == 2,
					"request %d, routed again: got %+v, %v, want allowed %v", i+1, d, err, admitted)
				if tight, _ := d.Tightest(); tight.Rule != "login" || d.Results[0] != first.Results[0] {
					t.Errorf("request %d: got %+v, want the login's limit as the tightest beside the first decision", i+1, d)
				}
				third, _, err := guard(l, g.Request())
				if again, _ := core.FromContext(third.Context()); err != nil || !slices.Equal(again.Results, d.Results) || again.Allowed != admitted {
					t.Errorf("request %d, mounted a third time: got %+v, %v, want %+v", i+1, again, err, d)
				}
				g.End()
			}
			expect.Equal(t, len(seen.seen), 14, "how often observers were called (twice a request)")
			api, login := remaining(t, l, "api"), remaining(t, l, "login")
			expect.True(t, api == 93 && login == 0, "got %d and %d left, want 93 and 0", api, login)
		})
	}
}

// TestCheckInAHandlerDecidesTheNewRoute calls Check and Peek in a handler, which is routed again by hand.
func TestCheckInAHandlerDecidesTheNewRoute(t *testing.T) {
	l := apiAndLogin()
	r, first, _ := guard(l, get("/start"))
	for _, ask := range []func(*http.Request) (core.Decision, error){l.Check, l.Peek} {
		if d, err := ask(r); err != nil || !slices.Equal(d.Results, first.Results) {
			t.Errorf("on the same route: got %+v, %v, want %+v", d, err, first)
		}
	}
	r = at(r, "/login")
	peek, err := l.Peek(r)
	expect.True(t, err == nil && len(peek.Results) == 2 && peek.Results[1].Remaining == 5 && peek.Results[0] == first.Results[0],
		"peek at the login: got %+v, %v", peek, err)
	d, err := l.Check(r)
	expect.True(t, err == nil && len(d.Results) == 2 && d.Results[1].Remaining == 4 && remaining(t, l, "api") == 99,
		"the login: got %+v, %v", d, err)
	ctx := core.NewContext(r.Context(), d)
	carried, _ := core.FromContext(ctx)
	expect.True(t, slices.Equal(carried.Results, d.Results), "the context carries %+v, want %+v", carried, d)
	expect.Elements(t, must.Get(l.Check(r.WithContext(ctx)))(t).Results, d.Results, "the decision carried by hand")
	if err := l.Refund(t.Context(), d); err != nil || remaining(t, l, "api") != 100 || remaining(t, l, "login") != 5 {
		t.Errorf("a refund of both decisions leaves %d and %d, %v", remaining(t, l, "api"), remaining(t, l, "login"), err)
	}
}

// TestRulesThatDidNotApplyBefore changes a request in other ways than its route, so that another rule applies.
func TestRulesThatDidNotApplyBefore(t *testing.T) {
	routed := false
	later := func(*http.Request) bool { return routed }
	var l *core.Limiter
	for why, row := range map[string]struct {
		change func(*core.Rule)
		opts   []core.Option
		routes []core.Rule // that replace the first ones
	}{
		"Match":    {change: func(r *core.Rule) { r.Match = later }},
		"Cost":     {change: func(r *core.Rule) { r.Cost = func(*http.Request) int { return map[bool]int{true: 1}[routed] } }},
		"skip":     {opts: []core.Option{core.WithSkip(func(*http.Request) bool { return !routed })}},
		"SetRules": {change: func(r *core.Rule) { r.Match = func(*http.Request) bool { return false } }, routes: []core.Rule{perHour("login", 5)}},
	} {
		routed = false
		rule := perHour("login", 5)
		if row.change != nil {
			row.change(&rule)
		}
		l = core.Must(core.New([]core.Rule{rule}, row.opts...))
		r, _, _ := guard(l, get("/"))
		if routed = true; row.routes != nil {
			must.Do(t, l.SetRules(row.routes))
		}
		_, d, err := guard(l, r)
		expect.True(t, err == nil && len(d.Results) == 1 && d.Results[0].Remaining == 4,
			"%s: got %+v, %v, want it decided now", why, d, err)
	}
}

// TestDeniedRequestIsChargedNothingMore routes a request again although it was denied, as a deny handler can.
func TestDeniedRequestIsChargedNothingMore(t *testing.T) {
	login := perHour("login", 5)
	login.Routes = []string{"/login"}
	l := core.Must(core.New([]core.Rule{perHour("api", 0), login}))
	r, _, _ := guard(l, get("/start"))
	g, err := l.Guard(r.Context(), at(r, "/login"), nil)
	if d := g.Decision(); err != nil || g.Admitted() || d.Allowed || len(d.Results) != 1 || remaining(t, l, "login") != 5 {
		t.Errorf("got %+v, %v, admitted %v; want the first denial", d, err, g.Admitted())
	}
	d, err := l.Check(at(r, "/login"))
	expect.True(t, err == nil && !d.Allowed && len(d.Results) == 1, "Check: got %+v, %v; want the first denial", d, err)
}

// TestRoutedAgainSettlesEachHoldOnce routes a request again, so that a second rule holds its cost.
func TestRoutedAgainSettlesEachHoldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finals := map[string]int{}
		final := func(name string) func(*http.Request, core.Outcome) int {
			return func(_ *http.Request, o core.Outcome) int {
				finals[name]++
				return o.Cost
			}
		}
		api, login := perHour("api", 100), perHour("login", 5)
		login.Routes = []string{"/login"}
		api.CostAfter, login.CostAfter = final("api"), final("login")
		api.Limits = append(api.Limits, core.AtOnce(1))
		l := core.Must(core.New([]core.Rule{api, login}))
		outer, _ := l.Guard(t.Context(), get("/start"), nil)
		again, err := l.Guard(outer.Request().Context(), at(outer.Request(), "/login"), nil)
		must.True(t, err == nil && again.Admitted() && again.Watches() && outer.Watches(),
			"got %+v, %v; want the rerouted request admitted: its own hold must not deny it", again.Decision(), err)
		third, err := l.Guard(again.Request().Context(), again.Request(), nil)
		must.True(t, err == nil && third.Admitted() && !third.Watches(), "got %+v, %v; want nothing more held", third.Decision(), err)
		expect.True(t, core.SetCost(third.Request().Context(), "login", 3) && core.SetCost(third.Request().Context(), "api", 7),
			"the handler cannot set the cost of both rules")
		time.Sleep(3 * time.Minute) // both are renewed
		for _, g := range []*core.Guard{&third, &again, &outer} {
			g.Settle(core.Outcome{Status: 200})
			g.End()
		}
		expect.True(t, finals["api"] == 1 && finals["login"] == 1 && remaining(t, l, "api") == 93 && remaining(t, l, "login") == 2,
			"settled %v, %d and %d left; want each once, 93 and 2 left", finals, remaining(t, l, "api"), remaining(t, l, "login"))
	})
}
