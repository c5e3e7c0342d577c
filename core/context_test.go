package core_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

// word is a key of values in contexts.
type word struct{}

func perHour(name string, n int) core.Rule {
	return core.Rule{Name: name, Key: keyK, Limits: []core.Limit{core.PerHour(n)}}
}

func TestGuardChargesOnce(t *testing.T) {
	seen := new(recorder)
	l := core.Must(core.New([]core.Rule{perHour("a", 5)}, core.WithObserver(seen.observe)))
	r, first, err := guard(l, get("/"))
	if err != nil || first.Results[0].Remaining != 4 {
		t.Fatalf("got %+v, %v", first, err)
	}
	again, err := l.Guard(r.Context(), r, nil)
	if d := again.Decision(); err != nil || !again.Admitted() || !reflect.DeepEqual(d, first) {
		t.Errorf("guarded twice: got %+v, %v; want the first decision", d, err)
	}
	third, err := l.Check(r)
	if err != nil || third.Results[0].Remaining != 4 || third.At != first.At {
		t.Errorf("checked after: got %+v, %v; want the first decision", third, err)
	}
	if len(seen.seen) != 1 {
		t.Errorf("observers were called %d times, want once", len(seen.seen))
	}
}

// TestWithoutDecision decides a second request in the context of the first, as the tools of a session are called.
func TestWithoutDecision(t *testing.T) {
	l := core.Must(core.New([]core.Rule{perHour("a", 5)}))
	r, _, err := guard(l, get("/"))
	if err != nil {
		t.Fatal(err)
	}
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
	if cancel(); apart.Err() == nil {
		t.Error("the context does not end")
	}
	if core.WithoutDecision(t.Context()) != t.Context() {
		t.Error("a context without a decision is copied")
	}
}

func TestFromContext(t *testing.T) {
	if _, ok := core.FromContext(t.Context()); ok {
		t.Error("a plain context carries a decision")
	}
	l := core.Must(core.New([]core.Rule{perHour("a", 5)}))
	d, _ := l.Check(get("/"))
	ctx := core.NewContext(t.Context(), d)
	got, ok := core.FromContext(context.WithValue(ctx, word{}, 1))
	if !ok || !got.Allowed || got.At != d.At || len(got.Results) != 1 {
		t.Errorf("got %+v, %v; want the decision, also below further contexts", got, ok)
	}
	if same, _ := core.FromContext(core.NewContext(ctx, d)); len(same.Results) != 1 {
		t.Errorf("got %+v; want a limiter's decision once", same)
	}
	noKey := func(*http.Request) (string, error) { return "", core.ErrNoKey }
	r, _, err := guard(core.Must(core.New([]core.Rule{core.PerHour(1).By(noKey)})), get("/"))
	if _, ok := core.FromContext(r.Context()); ok || !errors.Is(err, core.ErrNoKey) {
		t.Errorf("a failed Guard leaves a decision behind, %v", err)
	}
}

func TestContextKeepsWhatItWraps(t *testing.T) {
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), word{}, "hello"))
	ctx = core.NewContext(ctx, core.Decision{Allowed: true})
	cancel()
	if ctx.Value(word{}) != "hello" || ctx.Err() == nil {
		t.Errorf("got value %v and error %v, want the value and error of the context below", ctx.Value(word{}), ctx.Err())
	}
}

// guardTwice has two limiters guard a request, the second one second later.
func guardTwice(t *testing.T, outer, inner *core.Limiter) (joined, first, second core.Decision) {
	t.Helper()
	r, first, err := guard(outer, get("/"))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	g := must.Get(inner.Guard(r.Context(), r, nil))(t)
	r, joined = g.Request(), g.Decision()
	if carried, ok := core.FromContext(r.Context()); !ok || !reflect.DeepEqual(carried, joined) {
		t.Errorf("the context carries %+v, want what Guard says: %+v", carried, joined)
	}
	if second, _ = inner.Check(r); second.Allowed != g.Admitted() {
		t.Errorf("admitted: %v, want the inner limiter's own decision: %+v", g.Admitted(), second)
	}
	if d, _ := outer.Check(r); d.At != first.At || len(d.Results) != len(first.Results) {
		t.Errorf("the outer limiter got %+v, want its own decision back", d)
	}
	return joined, first, second
}

func TestJoinOfTwoLimiters(t *testing.T) {
	dryRun := perHour("dry", 5)
	dryRun.DryRun = true
	skipped := perHour("skipped", 1)
	skipped.Match = func(*http.Request) bool { return false }
	tests := []struct {
		why          string
		outer, inner core.Rule
		allowed      bool
		atInner      bool
		results      int
	}{
		{"the inner one is tighter", perHour("a", 100), perHour("b", 2), true, true, 2},
		{"the outer one is tighter", perHour("a", 2), perHour("b", 100), true, false, 2},
		{"ties go to the outer one", perHour("a", 5), perHour("b", 5), true, false, 2},
		{"a denial is tighter", perHour("a", 1), perHour("b", 0), false, true, 2},
		{"a denial by the outer one stays", perHour("a", 0), perHour("b", 5), false, false, 2},
		{"a dry run constrains nothing", perHour("a", 100), dryRun, true, false, 2},
		{"nor does it inside out", dryRun, perHour("b", 100), true, true, 2},
		{"a limiter without claims knows no time", skipped, perHour("b", 5), true, true, 1},
		{"even beside a dry run", skipped, dryRun, true, true, 1},
		{"and the other way round", perHour("a", 5), skipped, true, false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outer, inner := core.Must(core.New([]core.Rule{tt.outer})), core.Must(core.New([]core.Rule{tt.inner}))
				joined, first, second := guardTwice(t, outer, inner)
				want := first.At
				if tt.atInner {
					want = second.At
				}
				if joined.Allowed != tt.allowed || !joined.At.Equal(want) || len(joined.Results) != tt.results {
					t.Errorf("got %+v, want allowed %v at %v", joined, tt.allowed, want)
				}
			})
		})
	}
}

func TestJoinKeepsTheFirstFailure(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	ctx := core.NewContext(t.Context(), core.Decision{Allowed: true})
	ctx = core.NewContext(ctx, core.Decision{Allowed: true, Degraded: one})
	ctx = core.NewContext(ctx, core.Decision{Allowed: true, Degraded: two})
	if d, _ := core.FromContext(ctx); d.Degraded != one {
		t.Errorf("got %v, want %v", d.Degraded, one)
	}
}

func TestRefundOfJoinedDecision(t *testing.T) {
	outer, inner := core.Must(core.New([]core.Rule{perHour("a", 5)})), core.Must(core.New([]core.Rule{perHour("b", 5)}))
	r, _, _ := guard(outer, get("/"))
	r, _, _ = guard(inner, r)
	joined, _ := core.FromContext(r.Context())
	steps := []struct {
		refund *core.Limiter
		a, b   int
		why    string
	}{
		{nil, 4, 4, "both were charged"},
		{inner, 4, 5, "the inner limiter gives back only its own"},
		{inner, 4, 5, "and only once"},
		{outer, 5, 5, "the outer one its own"},
		{outer, 5, 5, "once as well"},
	}
	for _, step := range steps {
		if step.refund != nil {
			must.Do(t, step.refund.Refund(t.Context(), joined))
		}
		if a, b := remaining(t, outer, "a"), remaining(t, inner, "b"); a != step.a || b != step.b {
			t.Errorf("%s: got %d and %d left, want %d and %d", step.why, a, b, step.a, step.b)
		}
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
	if len(all.Results) != 3 {
		t.Fatalf("got %+v, want the results of three", all)
	}
	for i, l := range limiters {
		must.Do(t, l.Refund(t.Context(), all))
		if got := remaining(t, l, "r"); got != 5 {
			t.Errorf("limiter %d: got %d left, want 5", i+1, got)
		}
	}
}

// TestJoinedDecisionIsOfBothLimiters moves the joined decision of two limiters to contexts that carry the decision of neither,
// or of one.
func TestJoinedDecisionIsOfBothLimiters(t *testing.T) {
	outer, inner := core.Must(core.New([]core.Rule{perHour("a", 5)})), core.Must(core.New([]core.Rule{perHour("b", 5)}))
	first, _, _ := guard(outer, get("/"))
	both, _, _ := guard(inner, first)
	joined, _ := core.FromContext(both.Context())
	other := get("/").WithContext(core.NewContext(t.Context(), joined))
	if d, err := outer.Check(other); err != nil || len(d.Results) != 1 || d.Results[0].Rule != "a" || d.Results[0].Remaining != 4 {
		t.Errorf("got %+v, %v; want the first decision of the outer limiter alone", d, err)
	}
	if d, _ := core.FromContext(core.NewContext(first.Context(), joined)); !slices.Equal(d.Results, joined.Results) {
		t.Errorf("got %+v; want the carried decision and the added one", d)
	}
}

// TestJoinWithADecisionOfNoLimiter joins a decision to one that no limiter made: it still belongs to its limiter.
func TestJoinWithADecisionOfNoLimiter(t *testing.T) {
	l := core.Must(core.New([]core.Rule{perHour("a", 5)}))
	d, _ := l.Check(get("/"))
	word := core.NewContext(t.Context(), core.Decision{Allowed: true})
	joined, _ := core.FromContext(core.NewContext(word, d))
	again, err := l.Check(get("/").WithContext(core.NewContext(t.Context(), joined)))
	if err != nil || len(again.Results) != 1 || again.Results[0].Remaining != 4 {
		t.Errorf("got %+v, %v; want the first decision", again, err)
	}
	if err := l.Refund(t.Context(), joined); err != nil || remaining(t, l, "a") != 5 {
		t.Errorf("the joined decision gave nothing back, %v", err)
	}
}

func TestInnerLimiterSeesTheOuterDecision(t *testing.T) {
	var seen core.Decision
	look := func(r *http.Request) (string, error) {
		seen, _ = core.FromContext(r.Context())
		return "k", nil
	}
	r, outer, _ := guard(core.Must(core.New([]core.Rule{perHour("a", 5)})), get("/"))
	guard(core.Must(core.New([]core.Rule{core.PerHour(5).By(look)})), r)
	if !seen.Allowed || seen.At != outer.At || len(seen.Results) != 1 {
		t.Errorf("got %+v, want what the outer limiter has decided", seen)
	}
}

func TestOuterRulesOfSameNameCountsTheLimitersFurtherOut(t *testing.T) {
	outer, inner := core.Must(core.New([]core.Rule{perHour("r", 5)})), core.Must(core.New([]core.Rule{perHour("r", 5), perHour("own", 5)}))
	r, alone, _ := guard(outer, get("/"))
	r, _, _ = guard(inner, r)
	both, _ := core.FromContext(r.Context())
	for i, want := range map[int]int{-1: 0, 0: 0, 1: 1, 2: 0, 3: 0} {
		if got := both.OuterRulesOfSameName(i); got != want {
			t.Errorf("result %d of two limiters: got %d, want %d", i, got, want)
		}
		if got := alone.OuterRulesOfSameName(i) + (core.Decision{}).OuterRulesOfSameName(i); got != 0 {
			t.Errorf("result %d of one limiter or none: got %d", i, got)
		}
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
	if err != nil || !slices.Equal(names, []string{"api", "login", "login", "login"}) || !slices.Equal(outer, []int{0, 1, 0, 2}) {
		t.Errorf("got %q with %v limiters further out, %v", names, outer, err)
	}
}

// TestCheckAgainReturnsWhatWasDecided asks a limiter twice about one request, with another limiter in between.
func TestCheckAgainReturnsWhatWasDecided(t *testing.T) {
	l, other := core.Must(core.New([]core.Rule{perHour("a", 5)})), core.Must(core.New([]core.Rule{perHour("b", 5)}))
	r, first, _ := guard(l, get("/"))
	r, _, _ = guard(other, r)
	again, err := l.Check(r)
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("got %+v, %v; want %+v", again, err, first)
	}
}
