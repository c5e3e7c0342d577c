package core_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

func constKey(*http.Request) (string, error) { return "const:all", nil }

func get(path string) *http.Request { return httptest.NewRequest(http.MethodGet, path, nil) }

func newErr(rules ...core.Rule) error {
	_, err := core.New(rules)
	return err
}

func named(name string) core.Rule {
	return core.Rule{Name: name, Key: constKey, Limits: []core.Limit{core.PerMinute(1)}}
}

func TestNewRuleMistakes(t *testing.T) {
	ok := []core.Limit{core.PerMinute(1)}
	tests := []struct {
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
		{
			"same algorithm and period share their state",
			[]core.Rule{{Name: "a", Key: constKey, Limits: []core.Limit{core.PerMinute(5), core.PerHour(9), core.PerMinute(6)}}},
			`rule "a": limits 1 and 3 are both a token-bucket of 1m0s`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) { wantError(t, newErr(tt.rules...), core.ErrInvalid, tt.want) })
	}
}

func TestNewReportsAllMistakesAtOnce(t *testing.T) {
	_, err := core.New([]core.Rule{
		{Name: "é", Limits: []core.Limit{core.PerMinute(-1), {Rate: 2, Burst: -7}}, OnFailure: 9},
		{Name: "b"},
		{Name: "b", Key: constKey, Limits: []core.Limit{core.PerMinute(1), core.PerMinute(2)}},
	}, nil, core.WithTimeout(0), core.WithStore(&core.MemoryStore{MaxKeys: -4}))
	for _, want := range []string{
		`spillgate: rule "é": name must be printable ASCII`,
		`spillgate: rule "é": limit 1: rate must be between 0 and 1000000000, got -1`,
		`spillgate: rule "é": limit 2: period must be at least 1ms, got 0s`,
		`spillgate: rule "é": limit 2: burst must be between 0 and 1000000000, got -7`,
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
	if got := strings.Count(err.Error(), "\n") + 1; got != 11 {
		t.Errorf("got %d lines, want one per mistake, 11:\n%v", got, err)
	}
}

func TestNewOptionMistakes(t *testing.T) {
	tests := []struct {
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
		{"less than no time", core.WithTimeout(-time.Second), "timeout must be positive, got -1s"},
		{"a store with a mistake of its own", core.WithStore(&core.MemoryStore{MaxKeys: -1}), "MaxKeys must not be negative, got -1"},
		{"and a fallback", core.WithFallback(&core.MemoryStore{MaxKeys: -2}), "MaxKeys must not be negative, got -2"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			_, err := core.New([]core.Rule{named("a")}, tt.opt)
			wantError(t, err, core.ErrInvalid, tt.want)
		})
	}
}

func TestNewAcceptsAnyPrintableName(t *testing.T) {
	for _, name := range []string{"", " ", "a b", `"quoted"`, "~", "API v1: writes"} {
		if err := newErr(named(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNewCopiesRules(t *testing.T) {
	rules := []core.Rule{named("a")}
	l := core.Must(core.New(rules))
	rules[0].Name, rules[0].Key, rules[0].Limits[0] = "b", nil, core.PerMinute(50)
	d, err := l.Check(get("/"))
	if err != nil || d.Results[0].Rule != "a" || d.Results[0].Limit.Rate != 1 {
		t.Errorf("got %+v, %v; want the rule as it was when New was called", d, err)
	}
}

func TestMust(t *testing.T) {
	defer func() {
		err, _ := recover().(error)
		wantError(t, err, core.ErrInvalid, "at least one rule")
	}()
	core.Must(core.New(nil))
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
		if d, err := l.Take(t.Context(), core.Claim{Rule: "jobs", Key: "k"}); err != nil || d.Allowed != allowed {
			t.Errorf("got %+v, %v, want allowed %v", d, err, allowed)
		}
	}
	for name, decide := range map[string]func(*http.Request) (core.Decision, error){"Check": l.Check, "Peek": l.Peek} {
		_, err := decide(get("/"))
		wantError(t, err, core.ErrInvalid, `spillgate: rule "jobs": key func is missing, so only Limiter.Take can use the rule; set Key to one such as keyfunc.RemoteIP`)
		if name == "Peek" && remaining(t, l, "r") != 10 {
			t.Error("a request that was not decided was charged")
		}
	}
	must.Do(t, l.SetRules([]core.Rule{allow10(), nowhere}))
	if d, err := l.Check(get("/")); err != nil || !d.Allowed {
		t.Errorf("a rule that does not apply: got %+v, %v", d, err)
	}
}
