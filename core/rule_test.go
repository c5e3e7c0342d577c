package core_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func constKey(*http.Request) (string, error) { return "const:all", nil }

func get(path string) *http.Request { return httptest.NewRequest(http.MethodGet, path, nil) }

func inBubble(test func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

func newErr(rules ...core.Rule) error {
	_, err := core.New(rules)
	return err
}

func named(name string) core.Rule {
	return core.Rule{Name: name, Key: constKey, Limits: []core.Limit{core.PerMinute(1)}}
}

func TestNewRuleMistakes(t *testing.T) {
	ok := []core.Limit{core.PerMinute(1)}
	for _, tt := range []struct {
		why   string
		rules []core.Rule
		want  string
	}{
		{"no rules", nil, "at least one rule"},
		{"a line break would forge a log line or a header", []core.Rule{named("a\nb")}, `rule "a\nb": name must be printable ASCII`},
		{"not ASCII", []core.Rule{named("größe")}, `rule "größe": name must be printable ASCII`},
		{"DEL does not print", []core.Rule{named("a\x7f")}, `rule "a\x7f": name must be printable ASCII`},
		{"equal names share their state", []core.Rule{named("a"), named("b"), named("a")}, `rule "a": name is not unique`},
		{"no name is default", []core.Rule{named(""), named("default")}, `rule "default": name is not unique`},
		{"no limits", []core.Rule{{Name: "a", Key: constKey}}, `rule "a": a rule needs at least one limit`},
		{"no such failure mode", []core.Rule{{Name: "a", Key: constKey, Limits: ok, OnFailure: 3}}, `rule "a": there is no failure mode 3`},
		{"same algorithm and period share their state",
			[]core.Rule{{Name: "a", Key: constKey, Limits: []core.Limit{core.PerMinute(5), core.PerHour(9), core.PerMinute(6)}}},
			`rule "a": limits 1 and 3 are both a token-bucket of 1m0s`},
	} {
		t.Run(tt.why, func(t *testing.T) { wantError(t, newErr(tt.rules...), core.ErrInvalid, tt.want) })
	}
}

func TestNewReportsAllMistakesAtOnce(t *testing.T) {
	_, err := core.New([]core.Rule{
		{Name: "é", Limits: []core.Limit{core.PerMinute(-1), {Rate: 2, Burst: -7}, core.PerMonth(5).In("Europe/Berlni").From(32)}, OnFailure: 9},
		{Name: "b"},
		{Name: "b", Key: constKey, Limits: []core.Limit{core.PerMinute(1), core.PerMinute(2)}},
	}, nil, core.WithTimeout(0), core.WithStore(&core.MemoryStore{MaxKeys: -4}))
	for _, want := range []string{
		`spillgate: rule "é": name must be printable ASCII`,
		`spillgate: rule "é": limit 1: rate must be between 0 and 1000000000, got -1`,
		`spillgate: rule "é": limit 2: period must be at least 1ms, got 0s`,
		`spillgate: rule "é": limit 2: burst must be between 0 and 1000000000, got -7`,
		`spillgate: rule "é": limit 3: from must be between 1 and 31 for a calendar month, got 32`,
		`spillgate: rule "é": limit 3: time zone: this machine does not know "Europe/Berlni"`,
		`spillgate: rule "é": there is no failure mode 9`,
		`spillgate: rule "b": a rule needs at least one limit`,
		`name is not unique`,
		`limits 1 and 2 are both a token-bucket of 1m0s`,
		`option is nil`,
		`timeout must be positive, got 0s`,
		`MaxKeys must not be negative, got -4`,
	} {
		wantError(t, err, core.ErrInvalid, want)
	}
	got := strings.Count(err.Error(), "\n") + 1
	expect.True(t, got == 13, "got %d lines, want one per mistake, 13:\n%v", got, err)
}

func TestNewOptionMistakes(t *testing.T) {
	for _, tt := range []struct {
		why  string
		opt  core.Option
		want string
	}{
		{"a nil option", nil, "option is nil"},
		{"a nil store", core.WithStore(nil), "store is nil"},
		{"a nil fallback", core.WithFallback(nil), "fallback is nil"},
		{"a nil skip", core.WithSkip(nil), "skip is nil"},
		{"a nil observer", core.WithObserver(nil), "observer is nil"},
		{"a store that is a nil pointer", core.WithStore((*core.MemoryStore)(nil)), "store is nil"},
		{"a store that is a nil pointer of another type", core.WithStore((*faulty)(nil)), "store is nil"},
		{"a fallback that is a nil pointer", core.WithFallback((*faulty)(nil)), "fallback is nil"},
		{"a nil logger", core.WithLogger(nil), "logger is nil"},
		{"no time for the store", core.WithTimeout(0), "timeout must be positive, got 0s"},
		{"nobody may wait", core.WithMaxWaiting(0), "WithMaxWaiting: at least one request must be able to wait"},
		{"less than nobody", core.WithMaxWaiting(-1), "WithMaxWaiting: at least one request must be able to wait"},
		{"less than no time", core.WithTimeout(-time.Second), "timeout must be positive, got -1s"},
		{"a store with a mistake of its own", core.WithStore(&core.MemoryStore{MaxKeys: -1}), "MaxKeys must not be negative, got -1"},
		{"and a fallback", core.WithFallback(&core.MemoryStore{MaxKeys: -2}), "MaxKeys must not be negative, got -2"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			wantError(t, expect.ErrorOf(core.New([]core.Rule{named("a")}, tt.opt)), core.ErrInvalid, tt.want)
		})
	}
}

func TestNewAcceptsAnyPrintableName(t *testing.T) {
	for _, name := range []string{"", " ", "a b", `"quoted"`, "~", "API v1: writes"} {
		expect.NoError(t, newErr(named(name)), "%q", name)
	}
}

func TestNewCopiesRules(t *testing.T) {
	rules := []core.Rule{routed("/a")}
	l := core.Must(core.New(rules))
	rules[0].Name, rules[0].Key, rules[0].Limits[0], rules[0].Routes[0] = "b", nil, core.PerMinute(50), "/b"
	d, err := l.Check(get("/a"))
	expect.True(t, err == nil && d.Results[0].Rule == "/a" && d.Results[0].Limit.Rate == 1_000_000 && l.Rules()[0].Routes[0] == "/a",
		"got %+v, %v; want the rule as it was when New was called", d, err)
}

func TestMust(t *testing.T) {
	wantError(t, expect.PanicOf(func() { core.Must(core.New(nil)) }), core.ErrInvalid, "at least one rule")
}

func TestSecondStoreIsAMistake(t *testing.T) {
	store := new(core.MemoryStore)
	_, err := core.New([]core.Rule{named("a")}, core.WithStore(store), core.WithStore(store), core.WithFallback(store), core.WithFallback(store))
	wantError(t, err, core.ErrInvalid, "a second store is given; a limiter has one")
	wantError(t, err, core.ErrInvalid, "a second fallback is given; a limiter has one")
}

// A limiter that only calls Take needs no key func. If it checks a request, a rule without a key func must not admit it, nor
// count all requests under one key.
func TestRuleWithoutKeyIsForTake(t *testing.T) {
	jobs := core.Rule{Name: "jobs", Limits: []core.Limit{core.PerHour(1)}}
	nowhere := jobs
	nowhere.Name, nowhere.Match = "nowhere", func(*http.Request) bool { return false }
	l := core.Must(core.New([]core.Rule{allow10(), jobs, nowhere}))
	for _, allowed := range []bool{true, false} {
		d, err := l.Take(t.Context(), core.Claim{Rule: "jobs", Key: "k"})
		expect.True(t, err == nil && d.Allowed == allowed, "got %+v, %v, want allowed %v", d, err, allowed)
	}
	for name, decide := range map[string]func(*http.Request) (core.Decision, error){"Check": l.Check, "Peek": l.Peek} {
		_, err := decide(get("/"))
		wantError(t, err, core.ErrInvalid, `spillgate: rule "jobs": key func is missing, so only Limiter.Take can use the rule; set Key to one such as keyfunc.RemoteIP`)
		expect.True(t, name != "Peek" || remaining(t, l, "r") == 10, "a request that was not decided was charged")
	}
	must.Do(t, l.SetRules([]core.Rule{allow10(), nowhere}))
	d := must.Get(l.Check(get("/")))(t)
	expect.True(t, d.Allowed, "a rule that does not apply: got %+v, %v", d)
}

func TestSetRulesKeepsWhatWasUsed(t *testing.T) {
	l := core.Must(core.New([]core.Rule{{Name: "a", Key: constKey, Limits: []core.Limit{core.PerHour(10)}}}))
	for range 10 {
		d, err := l.Check(get("/"))
		must.True(t, err == nil && d.Allowed, "got %+v, %v", d, err)
	}
	rules := []core.Rule{{Name: "a", Key: constKey, Limits: []core.Limit{core.PerHour(100)}}, named("b")}
	must.Do(t, l.SetRules(rules))
	rules[0].Limits[0] = core.PerHour(1)
	d, err := l.Peek(get("/"))
	expect.True(t, err == nil && len(d.Results) == 2 && d.Results[0].Remaining == 90,
		"got %+v, %v; want 90 of 100 left, and the new rule", d, err)
}

func TestSetRulesReplacesAllOrNone(t *testing.T) {
	l := core.Must(core.New([]core.Rule{routed("/a"), named("b")}))
	for _, bad := range [][]core.Rule{nil, {named("c"), {Name: "d"}}, {named("c"), routed("x")}, {named("c"), named("c")}} {
		wantError(t, l.SetRules(bad), core.ErrInvalid, "")
		expect.Elements(t, applied(t, l, get("/a")), []string{"/a", "b"}, "after an error: got rules (those before)")
	}
	must.Do(t, l.SetRules([]core.Rule{named("c")}))
	expect.Elements(t, applied(t, l, get("/a")), []string{"c"}, "rules (only the new one)")
	expect.Fails(t, expect.ErrorOf(l.Take(t.Context(), core.Claim{Rule: "b", Key: "k"})), "Take still knows a rule that was replaced")
}

func TestRulesReturnsACopy(t *testing.T) {
	l := core.Must(core.New([]core.Rule{routed("/a"), named("")}))
	rules := l.Rules()
	must.True(t, len(rules) == 2 && rules[0].Routes[0] == "/a" && rules[1].Name == "default" && rules[1].Limits[0] == core.PerMinute(1),
		"got %+v", rules)
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
		expect.NoError(t, l.SetRules(generation(n)), "SetRules")
	}
	callers.Wait()
}

func TestZeroLimiterReturnsErrInvalid(t *testing.T) {
	claim := core.Claim{Key: "k", Limits: []core.Limit{core.PerHour(1)}}
	calls := map[string]func(*core.Limiter) error{
		"Check":    func(l *core.Limiter) error { _, err := l.Check(get("/")); return err },
		"Peek":     func(l *core.Limiter) error { _, err := l.Peek(get("/")); return err },
		"Take":     func(l *core.Limiter) error { _, err := l.Take(t.Context(), claim); return err },
		"Wait":     func(l *core.Limiter) error { _, err := l.Wait(t.Context(), claim); return err },
		"Guard":    func(l *core.Limiter) error { _, _, err := guard(l, get("/")); return err },
		"Reset":    func(l *core.Limiter) error { return l.Reset(t.Context(), "r", "k") },
		"Settle":   func(l *core.Limiter) error { return l.Settle(t.Context(), core.Decision{}, "r", 0) },
		"Renew":    func(l *core.Limiter) error { return l.Renew(t.Context(), core.Decision{}) },
		"Ban":      func(l *core.Limiter) error { return l.Ban(t.Context(), "r", "k", 1) },
		"Refund":   func(l *core.Limiter) error { return l.Refund(t.Context(), core.Decision{}) },
		"Grant":    func(l *core.Limiter) error { return l.Grant(t.Context(), "r", "k", 1) },
		"Usage":    func(l *core.Limiter) error { _, err := l.Usage(get("/")); return err },
		"UsageOf":  func(l *core.Limiter) error { _, err := l.UsageOf(t.Context(), "r", "k"); return err },
		"SetRules": func(l *core.Limiter) error { return l.SetRules([]core.Rule{named("a")}) },
	}
	for kind, l := range map[string]*core.Limiter{"zero": new(core.Limiter), "nil": nil} {
		for name, call := range calls {
			t.Run(kind+"/"+name, func(t *testing.T) { wantError(t, call(l), core.ErrInvalid, "the limiter") })
		}
		expect.True(t, l.Rules() == nil && l.Store() == nil && l.StoreHealth() == (core.Health{}),
			"a %s limiter has rules or a store", kind)
	}
}

func withLimits(name string, limits ...core.Limit) core.Rule {
	return core.Rule{Name: name, Key: constKey, Limits: limits}
}

func TestOneNameHasOneSetOfLimitsPerStore(t *testing.T) {
	first := []core.Rule{withLimits("a", core.PerMinute(5), core.PerHour(9)), withLimits("b", core.PerMinute(1))}
	for _, tt := range []struct {
		why   string
		rules []core.Rule
		want  string // empty: no mistake
	}{
		{"other names", []core.Rule{withLimits("c", core.PerMinute(7))}, ""},
		{"equal limits", []core.Rule{withLimits("a", core.PerMinute(5), core.PerHour(9))}, ""},
		{"equal limits in another order", []core.Rule{withLimits("a", core.PerHour(9), core.PerMinute(5))}, ""},
		{"another rate", []core.Rule{withLimits("a", core.PerMinute(6), core.PerHour(9))}, `rule "a": a limiter with the same store has a rule of this name with the limits [5/1m 9/1h], got [6/1m 9/1h]; use another name or Limiter.SetRules`},
		{"another burst", []core.Rule{withLimits("b", core.PerMinute(1).WithBurst(3))}, `rule "b"`},
		{"fewer limits", []core.Rule{withLimits("a", core.PerMinute(5))}, `rule "a"`},
		{"another algorithm", []core.Rule{withLimits("b", core.PerMinute(1).Using(core.FixedWindow))}, `rule "b"`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			store, fallback := new(core.MemoryStore), new(core.MemoryStore)
			_, err := core.New([]core.Rule{withLimits("a", core.PerMinute(8)), {Name: "c"}}, core.WithStore(store)) // makes no limiter
			wantError(t, err, core.ErrInvalid, "at least one limit")
			l := core.Must(core.New(first, core.WithStore(store), core.WithFallback(fallback)))
			for _, opt := range []core.Option{core.WithStore(store), core.WithFallback(store), core.WithStore(fallback)} {
				_, err := core.New(tt.rules, opt)
				expect.True(t, tt.want != "" || err == nil, "%v", err)
				if tt.want != "" {
					wantError(t, err, core.ErrInvalid, tt.want)
				}
			}
			expect.NoError(t, expect.ErrorOf(core.New(tt.rules, core.WithStore(new(core.MemoryStore)))), "with another store")
			runtime.KeepAlive(l)
		})
	}
}

func TestSetRulesChangesLimitsOnASharedStore(t *testing.T) {
	store := new(core.MemoryStore)
	a := core.Must(core.New([]core.Rule{withLimits("a", core.PerMinute(5))}, core.WithStore(store)))
	b := core.Must(core.New([]core.Rule{withLimits("a", core.PerMinute(5))}, core.WithStore(store)))
	for _, l := range []*core.Limiter{a, b} {
		expect.NoError(t, l.SetRules([]core.Rule{withLimits("a", core.PerMinute(50))}), "SetRules")
	}
	_, err := core.New([]core.Rule{withLimits("a", core.PerMinute(5))}, core.WithStore(store))
	wantError(t, err, core.ErrInvalid, "with the limits [50/1m], got [5/1m]")
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
}

func TestLimitersThatWereDroppedDoNotCount(t *testing.T) {
	store := new(core.MemoryStore)
	for n := range 5 {
		_, err := core.New([]core.Rule{withLimits("a", core.PerMinute(n))}, core.WithStore(store))
		for deadline := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(deadline); {
			runtime.GC() // it may take more than one
			_, err = core.New([]core.Rule{withLimits("a", core.PerMinute(n))}, core.WithStore(store))
		}
		must.True(t, err == nil, "the limiter before is no longer in use: %v", err)
	}
}

// An emptyStore has no fields, so all its values are equal, and pointers to them may be.
type emptyStore struct{}

func (emptyStore) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	return new(core.MemoryStore).Take(context.Background(), claims, dst)
}
func (emptyStore) Settle(context.Context, []core.Settlement) error { return nil }
func (emptyStore) Reset(context.Context, []core.Pair) error        { return nil }

func TestStoresWithoutFieldsAreNotOneStore(t *testing.T) {
	for why, stores := range map[string][2]core.Store{
		"values":   {emptyStore{}, emptyStore{}},
		"pointers": {new(emptyStore), new(emptyStore)},
		"embedded": {struct{ emptyStore }{}, struct{ emptyStore }{}},
	} {
		var kept []*core.Limiter
		for i, s := range stores {
			l, err := core.New([]core.Rule{withLimits("a", core.PerMinute(i+1))}, core.WithStore(s), core.WithFallback(s))
			expect.NoError(t, err, "%s", why)
			kept = append(kept, l)
		}
		runtime.KeepAlive(kept)
	}
}

// funcStore is a store of a type whose values cannot be compared.
type funcStore struct {
	core.Store
	_ func()
}

func TestStoresThatCannotBeCompared(t *testing.T) {
	s := funcStore{Store: new(core.MemoryStore)}
	a := core.Must(core.New([]core.Rule{withLimits("a", core.PerMinute(5))}, core.WithStore(s), core.WithTimeout(time.Second)))
	expect.NoError(t, expect.ErrorOf(core.New([]core.Rule{withLimits("a", core.PerMinute(6))}, core.WithStore(s))), "New")
	runtime.KeepAlive(a)
}

func TestSkipsAddUp(t *testing.T) {
	l := core.Must(core.New([]core.Rule{named("a")}, core.WithSkip(hasPath("/health")), core.WithSkip(hasPath("/ready"))))
	for path, want := range map[string]int{"/health": 0, "/ready": 0, "/": 1} {
		got := applied(t, l, get(path))
		expect.Equal(t, len(got), want, "%s: rules %q apply", path, got)
	}
}

// A sharingStore shares its state with all stores whose state is equal.
type sharingStore struct {
	core.Store
	state any
}

func (s *sharingStore) SharedState() any { return s.state }

// Two stores may share the states of their limits.
func TestStoresThatShareStateHaveOneSetOfLimits(t *testing.T) {
	type state struct{ of any }
	with := func(of any) core.Store { return &sharingStore{new(core.MemoryStore), of} }
	first := with(state{"a"})
	l := core.Must(core.New([]core.Rule{withLimits("", core.PerMinute(5))}, core.WithStore(first)))
	odd := with(state{[]int{1}})
	m := core.Must(core.New([]core.Rule{withLimits("", core.PerMinute(5))}, core.WithFallback(odd)))
	other := []core.Rule{withLimits("", core.PerMinute(6))}
	for name, s := range map[string]core.Store{"the same": first, "an equal one": with(state{"a"}), "one that only equals itself": odd} {
		for _, opt := range []core.Option{core.WithStore(s), core.WithFallback(s)} {
			if _, err := core.New(other, opt); err == nil || !strings.Contains(err.Error(), `limits [5/1m], got [6/1m]; use another name`) {
				t.Errorf("%s: %v, want the mistake that the limits differ", name, err)
			}
		}
	}
	for name, s := range map[string]core.Store{
		"another": with(state{"b"}), "of another type": with("a"), "not comparable": with(state{[]int{1}}), "nil": with(nil),
	} {
		expect.NoError(t, expect.ErrorOf(core.New(other, core.WithStore(s))), "%s", name)
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(m)
}
