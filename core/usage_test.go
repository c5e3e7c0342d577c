package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestUsage(t *testing.T) {
	var observed int
	header := func(name string) core.KeyFunc {
		return func(r *http.Request) (string, error) {
			switch v := r.Header.Get(name); v {
			case "":
				return "", core.ErrNoKey
			case "bad":
				return "", core.ErrBadKey
			default:
				return v, nil
			}
		}
	}
	never := func(*http.Request) bool { return false }
	rules := []core.Rule{
		{Name: "routes", Key: func(r *http.Request) (string, error) { return core.RoutePattern(r), nil }, Limits: []core.Limit{core.PerDay(50)}},
		{Name: "route", Key: core.Route, Limits: []core.Limit{core.PerDay(50)}},
		{Name: "plan", Key: header("User"), Limits: []core.Limit{core.PerMonth(1)}, Routes: []string{"POST /orders"},
			Override: func(string) []core.Limit { return []core.Limit{core.PerMonth(100), core.PerMinute(10)} }},
		{Name: "team", Key: header("Team"), Limits: []core.Limit{core.PerHour(5)}},
		{Name: "export", Key: header("User"), Limits: []core.Limit{core.PerDay(5)}, Match: never, Cost: func(*http.Request) int { return 20 },
			Tier: func(*http.Request) []core.Limit { return []core.Limit{core.PerDay(50)} }},
		{Name: "jobs", Limits: []core.Limit{core.PerDay(50)}},
	}
	l := core.Must(core.New(rules, core.WithObserver(func(_ context.Context, _ *core.Observation) { observed++ })))
	r := httptest.NewRequest("GET", "/usage", nil)
	r.Header.Set("User", "ann")
	for range 1000 {
		d := must.Get(l.Usage(r))(t)
		must.True(t, len(d.Results) == 3 && d.Results[0].Remaining == 100 && d.Results[1].Remaining == 10 &&
			d.Results[2].Rule == "export" && d.Results[2].Remaining == 50,
			"got %+v, want all of plan and export", d.Results)
	}
	expect.AtMost(t, observed, 0, "how often observers were called")
	expect.AtMost(t, len(must.Get(l.Usage(httptest.NewRequest("GET", "/usage", nil)))(t).Results), 0, "without any key: got")
	r.Header.Set("Team", "bad")
	expect.ErrorIs(t, expect.ErrorOf(l.Usage(r)), core.ErrBadKey, "with a bad key")
}

// TestUsageOfManyRules checks that a call of the store gets at most 64 claims.
func TestUsageOfManyRules(t *testing.T) {
	var rules []core.Rule
	for i := range 130 {
		rules = append(rules, core.Rule{Name: fmt.Sprint("rule-", i), Key: constKey, Routes: []string{fmt.Sprintf("/%d", i)}, Limits: []core.Limit{core.PerDay(i + 1)}})
	}
	store := new(countedTakes)
	d, err := core.Must(core.New(rules, core.WithStore(store))).Usage(get("/"))
	must.True(t, err == nil && len(d.Results) == 130 && slices.Equal(store.sizes, []int{64, 64, 2}),
		"%d results by takes of %v claims, %v", len(d.Results), store.sizes, err)
	for i, r := range d.Results {
		expect.True(t, r.Rule == fmt.Sprint("rule-", i) && r.Remaining == i+1, "result %d: %+v", i, r)
	}
}

// A countedTakes records how many claims each Take has.
type countedTakes struct {
	core.MemoryStore
	sizes []int
}

func (s *countedTakes) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.sizes = append(s.sizes, len(claims))
	return s.MemoryStore.Take(ctx, claims, dst)
}

func TestUsageOf(t *testing.T) {
	observed := 0
	rules := []core.Rule{
		{Name: "plan", Limits: []core.Limit{core.PerMonth(100), core.PerMinute(10)}, Override: func(key string) []core.Limit {
			if key == "partner" {
				return []core.Limit{core.PerMonth(5000)}
			}
			return nil
		}},
		{Name: "tier", Tier: func(*http.Request) []core.Limit { return nil }, Limits: []core.Limit{core.PerDay(7)}},
		{Name: "uploads", Limits: []core.Limit{core.AtOnce(2)}},
	}
	l := core.Must(core.New(rules, core.WithObserver(func(context.Context, *core.Observation) { observed++ })))
	must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: "ann", Cost: 3}, core.Claim{Rule: "uploads", Key: "ann", Hold: true}))(t)
	observed = 0
	for range 3 {
		for _, tt := range []struct {
			rule, key string
			limits    []core.Limit
			want      []int
		}{
			{"plan", "ann", nil, []int{97, 7}},
			{"plan", "ann", []core.Limit{core.PerMonth(200)}, []int{197}},
			{"plan", "partner", nil, []int{5000}},
			{"tier", "ann", []core.Limit{core.PerDay(9)}, []int{9}},
			{"uploads", "ann", nil, []int{1}},
		} {
			d, err := l.UsageOf(t.Context(), tt.rule, tt.key, tt.limits...)
			var left []int
			for _, r := range d.Results {
				left = append(left, r.Remaining)
			}
			expect.True(t, err == nil && d.Allowed && slices.Equal(left, tt.want),
				"%s of %s: %v left, %v, want %v", tt.rule, tt.key, left, err, tt.want)
		}
	}
	expect.AtMost(t, observed, 0, "how often observers were called")
	for _, tt := range []struct {
		rule, key string
		limits    []core.Limit
		kind      error
		want      string
	}{
		{"plans", "ann", nil, core.ErrInvalid, `usage: there is no rule "plans"`},
		{"plan", "", nil, core.ErrNoKey, `usage of rule "plan"`},
		{"tier", "ann", nil, core.ErrInvalid, `usage of rule "tier": the rule has a Tier, which needs a request; pass the limits of this key's tier, or the rule's Limits: in Claim.Limits or, for Grant and UsageOf, as arguments`},
		{"plan", "ann", []core.Limit{core.PerDay(-1)}, core.ErrInvalid, `usage of rule "plan"`},
	} {
		wantError(t, expect.ErrorOf(l.UsageOf(t.Context(), tt.rule, tt.key, tt.limits...)), tt.kind, tt.want)
	}
}

func TestUsageOfWithoutTheStore(t *testing.T) {
	for mode, want := range map[core.FailureMode]error{core.FailLocal: nil, core.FailOpen: nil, core.FailClosed: core.ErrUnavailable} {
		l := core.Must(core.New([]core.Rule{{Name: "plan", Limits: []core.Limit{core.PerDay(5)}, OnFailure: mode}}, core.WithStore(&faulty{fault: unreachable})))
		d, err := l.UsageOf(t.Context(), "plan", "ann")
		if !errors.Is(err, want) || want == nil && d.Degraded == nil {
			t.Errorf("mode %v: %+v, %v", mode, d, err)
		}
	}
}

// A key func that parses a form reads the body, so the request must keep the form.
func TestUsageKeepsTheFormOfTheRequest(t *testing.T) {
	key := func(r *http.Request) (string, error) { return r.PostFormValue("user"), nil }
	l := core.Must(core.New([]core.Rule{core.PerDay(5).By(key)}))
	r := httptest.NewRequest("POST", "/", strings.NewReader("user=ann"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, err := l.Usage(r)
	expect.True(t, err == nil && r.PostForm.Get("user") == "ann", "got the form %v, %v, want the user ann", r.PostForm, err)
}

func TestOverride(t *testing.T) {
	calls := 0
	rule := core.Rule{
		Name: "plan", Limits: []core.Limit{core.PerHour(3)},
		Key: func(r *http.Request) (string, error) { return r.Header.Get("Key"), nil },
		Tier: func(r *http.Request) []core.Limit {
			if r.Header.Get("Tier") == "" {
				return nil
			}
			return []core.Limit{core.PerHour(7)}
		},
		Override: func(key string) []core.Limit {
			calls++
			switch key {
			case "partner":
				return []core.Limit{core.PerHour(50), core.PerMonth(1000)}
			case "blocked":
				return []core.Limit{core.PerHour(0)}
			case "wrong":
				return []core.Limit{{}}
			case "panics":
				panic("no database")
			}
			return nil
		},
	}
	l := core.Must(core.New([]core.Rule{rule}))
	check := func(key, tier string, want int) {
		t.Helper()
		calls = 0
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Key", key)
		r.Header.Set("Tier", tier)
		d, err := l.Check(r)
		must.True(t, err == nil && calls == 1, "%s: %v, after %d calls of Override", key, err, calls)
		expect.Equal(t, d.Results[0].Limit.Rate, want, "%s: limit", key)
	}
	check("a", "", 3)
	check("a", "x", 7)
	check("partner", "x", 50)
	check("blocked", "", 0)
	for _, key := range []string{"wrong", "panics"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Key", key)
		expect.ErrorIs(t, expect.ErrorOf(l.Check(r)), core.ErrInvalid, "%s (ErrInvalid)", key)
		expect.ErrorIs(t, expect.ErrorOf(l.Take(t.Context(), core.Claim{Rule: "plan", Key: key})), core.ErrInvalid, "Take of %s (ErrInvalid)", key)
	}
	d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "partner"})
	expect.True(t, err == nil && d.Results[0].Limit.Rate == 50 && d.Results[0].Remaining == 48,
		"Take of partner: %+v, %v; want 48 of 50 left", d.Results, err)
	d, err = l.Take(t.Context(), core.Claim{Rule: "plan", Key: "partner", Limits: []core.Limit{core.PerHour(9)}})
	expect.True(t, err == nil && d.Results[0].Limit.Rate == 9, "Take with limits of its own: %+v, %v", d.Results, err)
	wantError(t, expect.ErrorOf(l.Take(t.Context(), core.Claim{Rule: "plan", Key: "a"})), core.ErrInvalid, "the rule has a Tier")
	expect.NoError(t, l.Grant(t.Context(), "plan", "partner", 10), "Grant")
	rule.Tier = nil
	l = core.Must(core.New([]core.Rule{rule}))
	check("a", "x", 3)
}
