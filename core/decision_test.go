package core_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

func TestTightest(t *testing.T) {
	left := func(rule string, remaining, capacity int) core.Result {
		return core.Result{Rule: rule, Allowed: true, Remaining: remaining, Limit: core.PerHour(capacity)}
	}
	denied := func(rule string, retry time.Duration) core.Result {
		return core.Result{Rule: rule, RetryAfter: retry, Limit: core.PerHour(10)}
	}
	recovers := func(r core.Result, refill, reset time.Duration) core.Result {
		r.RefillAfter, r.ResetAfter = refill, reset
		return r
	}
	dry := func(r core.Result) core.Result {
		r.DryRun = true
		return r
	}
	tests := []struct {
		why     string
		results []core.Result
		want    string // the rule; empty: none
	}{
		{"no results", nil, ""},
		{"a dry run enforces nothing", []core.Result{dry(denied("a", core.Never))}, ""},
		{"the least share remaining, not the least number", []core.Result{left("a", 5, 10), left("b", 90, 1000), left("c", 3, 4)}, "b"},
		{"ties go to the first", []core.Result{left("a", 5, 10), left("b", 50, 100)}, "a"},
		{"of equal shares, the longer recovery", []core.Result{recovers(left("a", 5, 10), 9, 1), recovers(left("b", 50, 100), 2, 3), recovers(left("c", 1, 2), 1, 2)}, "b"},
		{"of two that are used up, the one without a request for longer", []core.Result{recovers(left("a", 0, 10), 2, 9), recovers(left("b", 0, 100), 3, 4), recovers(left("c", 0, 2), 1, 99)}, "b"},
		{"the share before the recovery", []core.Result{recovers(left("a", 6, 10), 9, 9), recovers(left("b", 5, 10), 1, 1)}, "b"},
		{"a denied one before an allowed one", []core.Result{left("a", 0, 10), denied("b", 1)}, "b"},
		{"in either order", []core.Result{denied("b", 1), left("a", 0, 10)}, "b"},
		{"the longest wait", []core.Result{denied("a", 1), denied("b", 3), denied("c", 2)}, "b"},
		{"Never is longer than any", []core.Result{denied("a", time.Hour), denied("b", core.Never), denied("c", 2*time.Hour)}, "b"},
		{"the first Never", []core.Result{denied("a", core.Never), denied("b", core.Never)}, "a"},
		{"a dry run is passed over", []core.Result{dry(denied("a", core.Never)), left("b", 5, 5), dry(left("c", 0, 5))}, "b"},
		{"the largest numbers do not overflow", []core.Result{left("a", 999_999_999, 1_000_000_000), left("b", 999_999_998, 1_000_000_000)}, "b"},
		{"the burst is the capacity", []core.Result{left("a", 5, 20), {Rule: "b", Allowed: true, Remaining: 5, Limit: core.PerHour(20).WithBurst(40)}}, "b"},
	}
	for _, tt := range tests {
		got, ok := core.Decision{Results: tt.results}.Tightest()
		if ok != (tt.want != "") || got.Rule != tt.want {
			t.Errorf("%s: got rule %q, %v; want %q", tt.why, got.Rule, ok, tt.want)
		}
	}
}

func TestPreflight(t *testing.T) {
	tests := []struct {
		why, method, origin, request string
		want                         bool
	}{
		{"a preflight", "OPTIONS", "https://example.com", "PUT", true},
		{"an opaque origin", "OPTIONS", "null", "PUT", true},
		{"only OPTIONS asks", "GET", "https://example.com", "PUT", false},
		{"methods are case-sensitive", "options", "https://example.com", "PUT", false},
		{"a browser names its origin", "OPTIONS", "", "PUT", false},
		{"and what it is about to do", "OPTIONS", "https://example.com", "", false},
		{"a plain OPTIONS", "OPTIONS", "", "", false},
	}
	for _, tt := range tests {
		r := &http.Request{Method: tt.method, Header: http.Header{}}
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if tt.request != "" {
			r.Header.Set("Access-Control-Request-Method", tt.request)
		}
		if got := core.Preflight(r); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.why, got, tt.want)
		}
	}
	if core.Preflight(&http.Request{Method: "OPTIONS"}) {
		t.Error("a request without headers is a preflight")
	}
}

// TestDecisionKey asks three times for the keys of rules with a capacity of 1: the first request is admitted.
func TestDecisionKey(t *testing.T) {
	one := func(name string, limits string) core.Rule {
		key := func(*http.Request) (string, error) { return "user:" + name, nil }
		return core.Rule{Name: name, Key: key, Limits: core.MustParseLimits(limits)}
	}
	open, tier, final := one("open", "1/h"), one("tier", "5/h"), one("final", "1/h")
	open.OnFailure = core.FailOpen
	tier.Tier = func(*http.Request) []core.Limit { return []core.Limit{core.PerHour(1)} }
	final.CostAfter = core.Failures
	for why, row := range map[string]struct {
		rules []core.Rule
		opts  []core.Option
	}{
		"one limit":            {rules: []core.Rule{one("a", "1/h")}},
		"the default name":     {rules: []core.Rule{one("", "1/h")}},
		"a dry run":            {rules: []core.Rule{dry(one("a", "1/h"))}},
		"two limits":           {rules: []core.Rule{one("a", "1/h, 5/d")}},
		"a tier":               {rules: []core.Rule{tier}},
		"in flight":            {rules: []core.Rule{one("a", "1 at once")}},
		"a final cost":         {rules: []core.Rule{final}},
		"two rules":            {rules: []core.Rule{one("a", "5/h"), one("b", "1/h")}},
		"one of them dry":      {rules: []core.Rule{one("a", "5/h"), dry(one("b", "1/h"))}},
		"a store":              {rules: []core.Rule{one("a", "1/h")}, opts: []core.Option{core.WithStore(&recordingStore{})}},
		"a store that is down": {rules: []core.Rule{open, one("a", "1/h")}, opts: []core.Option{core.WithStore(&faulty{fault: unreachable})}},
	} {
		t.Run(why, func(t *testing.T) {
			l := core.Must(core.New(row.rules, row.opts...))
			for name, decide := range map[string]func(*http.Request) (core.Decision, error){"Check": l.Check, "Peek": l.Peek} {
				for i := range 3 {
					d := must.Get(decide(get("/")))(t)
					for _, r := range row.rules {
						if key, ok := d.Key(r.Name); key != "user:"+r.Name || !ok {
							t.Errorf("%s %d: rule %q: got %q, %v", name, i, r.Name, key, ok)
						}
					}
					if key, ok := d.Key("other"); key != "" || ok {
						t.Errorf("%s %d: a rule that does not exist: got %q, %v", name, i, key, ok)
					}
				}
			}
		})
	}
}

func TestDecisionKeyWithoutClaim(t *testing.T) {
	free := allow10(func(r *core.Rule) { r.Cost = cost(0) })
	d, err := core.Must(core.New([]core.Rule{free})).Check(get("/"))
	for _, d := range []core.Decision{d, {}, {Results: []core.Result{{Rule: "r"}}}} {
		if key, ok := d.Key("r"); key != "" || ok || err != nil {
			t.Errorf("got %q, %v, %v", key, ok, err)
		}
	}
}

// TestDecisionKeyOfTwoLimiters lets an outer limiter count by user and an inner one by address, under one name.
func TestDecisionKeyOfTwoLimiters(t *testing.T) {
	limiter := func(key string, limit core.Limit) *core.Limiter {
		return core.Must(core.New([]core.Rule{limit.By(func(*http.Request) (string, error) { return key, nil })}))
	}
	for why, row := range map[string]struct {
		inner int
		want  string
	}{
		"both allow":       {5, "user:42"},
		"the inner denies": {0, "ip:203.0.113.9"},
	} {
		outer, inner := limiter("user:42", core.PerHour(5)), limiter("ip:203.0.113.9", core.PerHour(row.inner))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		a := must.Get(outer.Guard(r.Context(), r, nil))(t)
		b := must.Get(inner.Guard(a.Request().Context(), a.Request(), nil))(t)
		if key, ok := b.Decision().Key(""); key != row.want || !ok {
			t.Errorf("%s: got %q, %v, want %s", why, key, ok, row.want)
		}
		b.End()
		a.End()
	}
}
