package core_test

import (
	"net/http"
	"slices"
	"testing"

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
		t.Errorf("got %+v; want the decision that was carried and the one that was added", d)
	}
}

// TestJoinedWithAWord joins a decision to one that no limiter made: it still belongs to its limiter.
func TestJoinedWithAWord(t *testing.T) {
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

func TestWhatIsKnownWhileTheInnerLimiterDecides(t *testing.T) {
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
