package headers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/must"
)

// names returns the names of the policies in both fields of IETF.
func names(t *testing.T, d core.Decision) (policies []string) {
	t.Helper()
	h := http.Header{}
	headers.IETF(h, d)
	items, err := parseList(h.Get("RateLimit-Policy"))
	states, err2 := parseList(h.Get("RateLimit"))
	if err != nil || err2 != nil || len(items) != len(states) {
		t.Fatalf("%v, %v: %v", h, err, err2)
	}
	for i, it := range items {
		if it.name != states[i].name {
			t.Errorf("fields name %q and %q", it.name, states[i].name)
		}
		policies = append(policies, it.name)
	}
	return policies
}

func TestPolicyNames(t *testing.T) {
	one := func(rule string, limits ...core.Limit) (results []core.Result) {
		for _, l := range limits {
			results = append(results, result(rule, l, 1, 0, 0))
		}
		return results
	}
	minute, hour := core.PerMinute(100), core.PerHour(1000)
	for _, row := range []struct {
		results []core.Result
		want    []string
	}{
		{one("api", minute), []string{"api"}},
		{one("api", minute, hour), []string{"api-1m", "api-1h"}},
		{one("api", minute, minute.Using(core.SlidingLog)), []string{"api-1m-token-bucket", "api-1m-sliding-log"}},
		{one("api-1m", minute), []string{"api-1m-1m"}},
		{one("api-1m", minute, hour), []string{"api-1m-1m", "api-1m-1h"}},
		{one("api-1m-sliding-log", hour), []string{"api-1m-sliding-log-1h"}},
		{one("api~2", minute), []string{"api~2-1m"}},
		{one("up", minute, twoAtOnce), []string{"up-1m", "up-at-once"}},
		{one("up", twoAtOnce), []string{"up"}},
		{one("up-at-once", twoAtOnce), []string{"up-at-once-at-once"}},
		{one("~", minute), []string{"~"}},
		{one("1m", minute), []string{"1m"}},
		{one("v-2", minute), []string{"v-2"}},
		{one("plan-1month", minute), []string{"plan-1month"}},
		{one("a-sliding-log", minute), []string{"a-sliding-log"}},
	} {
		if got := names(t, decision(noon, row.results...)); !slices.Equal(got, row.want) {
			t.Errorf("%s: got %q, want %q", row.results[0].Rule, got, row.want)
		}
	}
}

// TestPolicyNamesAreInjective names rules like the policies of other rules.
func TestPolicyNamesAreInjective(t *testing.T) {
	rules := []string{"a"}
	for range 2 {
		for _, r := range slices.Clone(rules) {
			rules = append(rules, r+"-1m", r+"-60s", r+"-1m-sliding-log", r+"-1h-token-bucket", r+"~2", r+"-at-once", r+"-")
		}
	}
	limits := [][]core.Limit{
		{core.PerMinute(9)},
		{core.PerHour(9), core.PerMinute(9)},
		{core.PerMinute(9), core.PerMinute(9).Using(core.SlidingLog)},
		{core.PerHour(9), twoAtOnce},
		{core.PerHour(9), core.PerMinute(9), core.PerMinute(9).Using(core.SlidingLog)},
	}
	owner := map[string]string{}
	slices.Sort(rules)
	for _, rule := range slices.Compact(rules) {
		for _, set := range limits {
			var results []core.Result
			for _, l := range set {
				results = append(results, result(rule, l, 1, 0, 0))
			}
			for i, name := range names(t, decision(noon, results...)) {
				policy := fmt.Sprintf("%q %v", rule, set[i])
				if other := owner[name]; other != "" && other != policy {
					t.Errorf("%q names %s and %s", name, other, policy)
				}
				owner[name] = policy
			}
		}
	}
}

// TestPolicyNamesOfNestedLimiters gives two limiters rules with the same name. A policy has the same name in all
// responses, even if the other limiter's rule does not apply, or only the outer limiter decides.
func TestPolicyNamesOfNestedLimiters(t *testing.T) {
	key := func(*http.Request) (string, error) { return "k", nil }
	applies := true
	outerRule := core.PerMinute(3).By(key)
	outerRule.Match = func(*http.Request) bool { return applies }
	outer := core.Must(core.New([]core.Rule{outerRule}))
	inner := core.Must(core.New([]core.Rule{core.PerMinute(9).By(key), {Name: "route", Key: key, Limits: []core.Limit{core.PerMinute(9), core.PerHour(9)}}}))
	third := core.Must(core.New([]core.Rule{core.PerHour(9).By(key)}))
	for i, row := range []struct {
		limiters []*core.Limiter
		applies  bool
		want     []string
	}{
		{[]*core.Limiter{outer}, true, []string{"default"}},
		{[]*core.Limiter{outer, inner}, true, []string{"default", "default~2", "route-1m", "route-1h"}},
		{[]*core.Limiter{outer, inner}, false, []string{"default~2", "route-1m", "route-1h"}},
		{[]*core.Limiter{outer, inner, third}, true, []string{"default", "default~2", "route-1m", "route-1h", "default~3"}},
		{[]*core.Limiter{outer, inner}, true, []string{"default"}}, // the outer limiter denies
	} {
		applies = row.applies
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		var d core.Decision
		for _, l := range row.limiters {
			g := must.Get(l.Guard(r.Context(), r, nil))(t)
			r, d = g.Request(), g.Decision()
			if !g.Admitted() {
				break
			}
		}
		if got := names(t, d); !slices.Equal(got, row.want) {
			t.Errorf("request %d: got %q, want %q", i+1, got, row.want)
		}
		if !d.Allowed && !slices.Equal(headers.Violated(d), row.want) {
			t.Errorf("request %d: violated %q, want %q", i+1, headers.Violated(d), row.want)
		}
	}
}
