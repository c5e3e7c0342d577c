package core_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

func TestSetRulesKeepsWhatWasUsed(t *testing.T) {
	l := core.Must(core.New([]core.Rule{{Name: "a", Key: constKey, Limits: []core.Limit{core.PerHour(10)}}}))
	for range 10 {
		if d, err := l.Check(get("/")); err != nil || !d.Allowed {
			t.Fatalf("got %+v, %v", d, err)
		}
	}
	rules := []core.Rule{{Name: "a", Key: constKey, Limits: []core.Limit{core.PerHour(100)}}, named("b")}
	must.Do(t, l.SetRules(rules))
	rules[0].Limits[0] = core.PerHour(1)
	d, err := l.Peek(get("/"))
	if err != nil || len(d.Results) != 2 || d.Results[0].Remaining != 90 {
		t.Errorf("got %+v, %v; want 90 of 100 left, and the new rule", d, err)
	}
}

func TestSetRulesReplacesAllOrNone(t *testing.T) {
	l := core.Must(core.New([]core.Rule{routed("/a"), named("b")}))
	for _, bad := range [][]core.Rule{nil, {named("c"), {Name: "d"}}, {named("c"), routed("x")}, {named("c"), named("c")}} {
		wantError(t, l.SetRules(bad), core.ErrInvalid, "")
		if got := applied(t, l, get("/a")); !slices.Equal(got, []string{"/a", "b"}) {
			t.Errorf("after an error: got rules %q, want those before", got)
		}
	}
	must.Do(t, l.SetRules([]core.Rule{named("c")}))
	if got := applied(t, l, get("/a")); !slices.Equal(got, []string{"c"}) {
		t.Errorf("got rules %q, want only the new one", got)
	}
	if _, err := l.Take(t.Context(), core.Claim{Rule: "b", Key: "k"}); err == nil {
		t.Error("Take still knows a rule that was replaced")
	}
}

func TestRulesReturnsACopy(t *testing.T) {
	l := core.Must(core.New([]core.Rule{routed("/a"), named("")}))
	rules := l.Rules()
	if len(rules) != 2 || rules[0].Routes[0] != "/a" || rules[1].Name != "default" || rules[1].Limits[0] != core.PerMinute(1) {
		t.Fatalf("got %+v", rules)
	}
	rules[0].Routes[0], rules[1].Limits[0], rules[1].Name = "/b", core.PerMinute(9), "x"
	if again := l.Rules(); again[0].Routes[0] != "/a" || again[1].Limits[0] != core.PerMinute(1) || again[1].Name != "default" {
		t.Errorf("a caller changed the rules of the limiter: %+v", again)
	}
}

// Each request is decided by the old rules or by the new rules, never by some of both.
func TestSetRulesUnderLoad(t *testing.T) {
	generation := func(n int) []core.Rule {
		rules := make([]core.Rule, 5)
		for i := range rules {
			rules[i] = core.Rule{Name: fmt.Sprint(i), Key: constKey, Routes: []string{"/"}, Limits: []core.Limit{core.PerSecond(1_000_000 + n)}}
		}
		return rules
	}
	l := core.Must(core.New(generation(0)))
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 2000 {
				d, err := l.Check(get("/"))
				if err != nil || len(d.Results) != 5 {
					t.Errorf("got %+v, %v", d, err)
					return
				}
				for _, r := range d.Results {
					if r.Limit != d.Results[0].Limit {
						t.Errorf("decided by rules of two generations: %+v", d.Results)
						return
					}
				}
			}
		})
	}
	for n := range 500 {
		if err := l.SetRules(generation(n)); err != nil {
			t.Error(err)
		}
	}
	callers.Wait()
}

func TestZeroLimiterReturnsErrInvalid(t *testing.T) {
	claim := core.Claim{Key: "k", Limits: []core.Limit{core.PerHour(1)}}
	calls := map[string]func(*core.Limiter) error{
		"Check":    func(l *core.Limiter) error { _, err := l.Check(get("/")); return err },
		"Peek":     func(l *core.Limiter) error { _, err := l.Peek(get("/")); return err },
		"Take":     func(l *core.Limiter) error { _, err := l.Take(t.Context(), claim); return err },
		"Guard":    func(l *core.Limiter) error { _, _, err := guard(l, get("/")); return err },
		"Reset":    func(l *core.Limiter) error { return l.Reset(t.Context(), "r", "k") },
		"Settle":   func(l *core.Limiter) error { return l.Settle(t.Context(), core.Decision{}, "", 0) },
		"Renew":    func(l *core.Limiter) error { return l.Renew(t.Context(), core.Decision{}) },
		"Ban":      func(l *core.Limiter) error { return l.Ban(t.Context(), "r", "k", 1) },
		"SetRules": func(l *core.Limiter) error { return l.SetRules([]core.Rule{named("a")}) },
	}
	for kind, l := range map[string]*core.Limiter{"zero": new(core.Limiter), "nil": nil} {
		for name, call := range calls {
			t.Run(kind+"/"+name, func(t *testing.T) { wantError(t, call(l), core.ErrInvalid, "the limiter") })
		}
		if l.Rules() != nil || l.Store() != nil || l.StoreHealth() != (core.Health{}) {
			t.Errorf("a %s limiter has rules or a store", kind)
		}
	}
}

// TestTakeFindsEachOfManyRules uses so many rules that the limiter looks them up in a map.
func TestTakeFindsEachOfManyRules(t *testing.T) {
	var rules []core.Rule
	for i := range 9 {
		rules = append(rules, perHour(string(rune('a'+i)), i+1))
	}
	l := core.Must(core.New(rules))
	for i, r := range rules {
		d, err := l.Take(t.Context(), core.Claim{Rule: r.Name, Key: "k"})
		if err != nil || len(d.Results) != 1 || d.Results[0].Remaining != i {
			t.Errorf("rule %s: got %+v, %v; want %d remaining", r.Name, d, err, i)
		}
	}
}
