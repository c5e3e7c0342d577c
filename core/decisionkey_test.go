package core_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spillgate/spillgate/core"
)

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
		"a store that is down": {rules: []core.Rule{open, one("a", "1/h")}, opts: []core.Option{core.WithStore(&faulty{fault: refuse})}},
	} {
		t.Run(why, func(t *testing.T) {
			l := core.Must(core.New(row.rules, row.opts...))
			for name, decide := range map[string]func(*http.Request) (core.Decision, error){"Check": l.Check, "Peek": l.Peek} {
				for i := range 3 {
					d, err := decide(get("/"))
					if err != nil {
						t.Fatal(err)
					}
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
		a, err := outer.Guard(r.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := inner.Guard(a.Request().Context(), a.Request(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if key, ok := b.Decision().Key(""); key != row.want || !ok {
			t.Errorf("%s: got %q, %v, want %s", why, key, ok, row.want)
		}
		b.End()
		a.End()
	}
}
