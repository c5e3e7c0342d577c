package core_test

import (
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

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
		if err := l.Refund(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if got := remaining(t, l, "r"); got != 5 {
			t.Errorf("limiter %d: got %d left, want 5", i+1, got)
		}
	}
}

// TestJoinedDecisionIsOfBothLimiters carries what two limiters made to a context that knows of neither, or of one.
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

// TestOuterRulesCountEachLimiterOnce asks twice of one limiter, whose rule of the name does not apply, before it asks
// the inner one.
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

// TestCheckAgainReturnsWhatWasDecided asks a limiter again for a request that it has decided, behind another limiter.
func TestCheckAgainReturnsWhatWasDecided(t *testing.T) {
	l, other := core.Must(core.New([]core.Rule{perHour("a", 5)})), core.Must(core.New([]core.Rule{perHour("b", 5)}))
	r, first, _ := guard(l, get("/"))
	r, _, _ = guard(other, r)
	again, err := l.Check(r)
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("got %+v, %v; want %+v", again, err, first)
	}
}

// TestJoinCountsFromTheLimitThatTakesLongest has an inner limiter deny what two limiters further out have charged. Each
// has a store with a clock of its own, and the time to wait counts from the clock of the limit that takes longest to
// admit the request again.
func TestJoinCountsFromTheLimitThatTakesLongest(t *testing.T) {
	begun := time.Unix(1_767_268_800, 0)
	after := func(passed time.Duration, limit core.Limit) *core.Limiter {
		store := &core.MemoryStore{Now: func() time.Time { return begun.Add(passed) }}
		return core.Must(core.New([]core.Rule{limit.By(keyK)}, core.WithStore(store)))
	}
	for _, row := range []struct {
		outer  [2]core.Limit
		step   time.Duration // between the clocks of the two
		at     time.Duration
		repeat time.Duration
	}{
		{[2]core.Limit{core.Every(1, 3*time.Hour), core.Every(1, 2*time.Hour)}, time.Second, time.Second, 3 * time.Hour},
		{[2]core.Limit{core.Every(1, 2*time.Hour), core.Every(1, 3*time.Hour)}, time.Second, 2 * time.Second, 3 * time.Hour},
		{[2]core.Limit{core.PerSecond(1), core.PerSecond(1)}, time.Second, 3 * time.Second, time.Hour},
		{[2]core.Limit{core.PerHour(9), core.PerHour(9)}, 5 * time.Hour, 3 * time.Second, time.Hour}, // no wait: their clocks do not count
	} {
		inner := after(3*time.Second, core.PerHour(1))
		inner.Check(get("/"))
		r := get("/")
		for i, limit := range row.outer {
			r, _, _ = guard(after(time.Duration(i+1)*row.step, limit), r)
		}
		_, d, err := guard(inner, r)
		if err != nil || d.Allowed || !d.At.Equal(begun.Add(row.at)) || d.RetryAfter() != row.repeat {
			t.Errorf("behind %v: waits %v from %v on, %v; want %v from %v", row.outer, d.RetryAfter(), d.At.Sub(begun), err, row.repeat, row.at)
		}
	}
}
