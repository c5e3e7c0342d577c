package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// remaining returns what the first limit of rule leaves for key "k".
func remaining(t *testing.T, l *core.Limiter, rule string) int {
	t.Helper()
	return must.Get(l.Take(t.Context(), core.Claim{Rule: rule, Key: "k", Peek: true}))(t).Results[0].Remaining
}

func keyK(*http.Request) (string, error) { return "k", nil }

func cost(n int) func(*http.Request) int { return func(*http.Request) int { return n } }

// allow10 returns a rule "r" of 10 per hour, changed by edits.
func allow10(edits ...func(*core.Rule)) core.Rule {
	r := core.Rule{Name: "r", Key: keyK, Limits: []core.Limit{core.PerHour(10)}}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

func TestCheckFaultsOfTheRequest(t *testing.T) {
	boom := errors.New("boom")
	panics := func() { panic("ouch") }
	for _, tt := range []struct {
		why  string
		edit func(*core.Rule)
		kind error
		want string
	}{
		{"no key", func(r *core.Rule) {
			r.Key = func(*http.Request) (string, error) { return "", fmt.Errorf("header x: %w", core.ErrNoKey) }
		}, core.ErrNoKey, `rule "r": header x: no key`},
		{"no key, and other limits", func(r *core.Rule) {
			r.Key = func(*http.Request) (string, error) { return "", core.ErrNoKey }
			r.Tier = func(*http.Request) []core.Limit { return nil }
		}, core.ErrNoKey, `rule "r": no key`},
		{"an empty key is none", func(r *core.Rule) { r.Key = func(*http.Request) (string, error) { return "", nil } }, core.ErrNoKey, "the key func returned an empty key: no key"},
		{"an error beside a key counts", func(r *core.Rule) { r.Key = func(*http.Request) (string, error) { return "k", boom } }, boom, `spillgate: rule "r": boom`},
		{"a key func panics", func(r *core.Rule) { r.Key = func(*http.Request) (string, error) { panics(); return "", nil } }, core.ErrInvalid, `rule "r": a callback panicked: ouch`},
		{"match panics", func(r *core.Rule) { r.Match = func(*http.Request) bool { panics(); return false } }, core.ErrInvalid, `rule "r": a callback panicked: ouch`},
		{"cost panics", func(r *core.Rule) { r.Cost = func(*http.Request) int { panics(); return 0 } }, core.ErrInvalid, `rule "r": a callback panicked: ouch`},
		{"tier panics", func(r *core.Rule) { r.Tier = func(*http.Request) []core.Limit { panics(); return nil } }, core.ErrInvalid, `rule "r": a callback panicked: ouch`},
		{"no key for a dry run", func(r *core.Rule) {
			r.Key, r.DryRun = func(*http.Request) (string, error) { return "", core.ErrNoKey }, true
		}, core.ErrNoKey, `rule "r": no key`},
		{"a negative cost would give back", func(r *core.Rule) { r.Cost = cost(-1) }, core.ErrInvalid, `rule "r": cost must not be negative, got -1`},
		{"a tier with a bad limit", func(r *core.Rule) {
			r.Tier = func(*http.Request) []core.Limit { return []core.Limit{core.PerHour(1), core.PerMinute(-5)} }
		}, core.ErrInvalid, `rule "r": tier: limit 2: rate must be between 0 and 1000000000, got -5`},
		{"a tier whose limits share state", func(r *core.Rule) {
			r.Tier = func(*http.Request) []core.Limit { return []core.Limit{core.PerHour(1), core.PerHour(2)} }
		}, core.ErrInvalid, `rule "r": tier: limits 1 and 2 are both`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			seen := new(recorder)
			before := core.Rule{Name: "before", Key: keyK, Limits: []core.Limit{core.PerHour(10)}}
			l := core.Must(core.New([]core.Rule{before, allow10(tt.edit, func(r *core.Rule) { r.OnFailure = core.FailOpen })}, core.WithObserver(seen.observe)))
			for _, ask := range []func(*http.Request) (core.Decision, error){l.Check, l.Peek} {
				d, err := ask(get("/"))
				must.True(t, errors.Is(err, tt.kind) && !d.Allowed && d.Results == nil,
					"got %+v, %v; want an error that wraps %v", d, err, tt.kind)
				expect.True(t, strings.HasPrefix(err.Error(), "spillgate: ") && strings.Contains(err.Error(), tt.want),
					"got error %q, want it to say %q", err, tt.want)
			}
			expect.Equal(t, remaining(t, l, "before"), 10, "left of the rule before")
		})
	}
}

func TestSkipPanics(t *testing.T) {
	d, err := core.Must(core.New([]core.Rule{allow10()}, core.WithSkip(func(*http.Request) bool { panic("ouch") }))).Check(get("/"))
	wantError(t, err, core.ErrInvalid, "skip: a callback panicked: ouch")
	expect.True(t, !d.Allowed, "a panic admitted the request")
}

func TestCheckBadRequests(t *testing.T) {
	byAddr := func(r *http.Request) (string, error) {
		if r.RemoteAddr == "" {
			return "", core.ErrNoKey
		}
		return "ip:" + r.RemoteAddr, nil
	}
	l := core.Must(core.New([]core.Rule{allow10(func(r *core.Rule) { r.Key = byAddr })}))
	_, err := l.Check(&http.Request{})
	wantError(t, err, core.ErrNoKey, `rule "r"`)
	d := must.Get(l.Check(&http.Request{RemoteAddr: "a"}))(t)
	expect.True(t, d.Allowed, "a request without a context: got %+v", d)
	if r, d, err := guard(l, &http.Request{RemoteAddr: "a"}); err != nil || d.Results[0].Remaining != 8 || core.RoutePattern(r) != "" {
		t.Errorf("a request without a context: got %+v, %v", d, err)
	}
}

func TestCheckHugeKey(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	l := core.Must(core.New([]core.Rule{core.PerMinute(1).By(func(*http.Request) (string, error) { return huge, nil })}))
	for _, want := range []bool{true, false} {
		d, err := l.Check(get("/"))
		expect.True(t, err == nil && d.Allowed == want, "got %v, %v; want allowed %v", d.Allowed, err, want)
	}
}

func hasPath(path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.URL.Path == path }
}

func TestCheckNil(t *testing.T) {
	l := core.Must(core.New([]core.Rule{plan(core.PerHour(100))}))
	wantError(t, expect.ErrorOf(l.Check(nil)), core.ErrInvalid, "the request is nil")
	wantError(t, expect.ErrorOf(l.Peek(nil)), core.ErrInvalid, "the request is nil")
	wantError(t, expect.ErrorOf(l.Usage(nil)), core.ErrInvalid, "the request is nil")
	g, err := l.Guard(nil, nil, nil) //nolint:staticcheck // a nil context is a mistake, too
	wantError(t, err, core.ErrInvalid, "the request is nil")
	expect.True(t, !g.Admitted() && g.Request() != nil, "a guard without a request admits one, or returns none")
	g.End()
}

func TestCheckCost(t *testing.T) {
	for _, tt := range []struct {
		cost    int
		allowed bool
		left    int
		why     string
	}{
		{1, true, 9, "the default cost"},
		{0, true, 10, "free"},
		{10, true, 0, "the whole capacity"},
		{11, false, 10, "more than can ever be admitted"},
		{math.MaxInt, false, 10, "an absurd cost overflows nothing"},
	} {
		l := core.Must(core.New([]core.Rule{allow10(func(r *core.Rule) { r.Cost = cost(tt.cost) })}))
		d, err := l.Check(get("/"))
		expect.True(t, err == nil && d.Allowed == tt.allowed && len(d.Results) == min(tt.cost, 1), "%s: cost %d: got %+v, %v", tt.why, tt.cost, d, err)
		expect.True(t, tt.allowed || d.RetryAfter() == core.Never, "%s: got RetryAfter %v, want Never", tt.why, d.RetryAfter())
		expect.Equal(t, remaining(t, l, "r"), tt.left, "%s: left", tt.why)
	}
}

func TestCheckTier(t *testing.T) {
	var tier []core.Limit
	l := core.Must(core.New([]core.Rule{allow10(func(r *core.Rule) { r.Tier = func(*http.Request) []core.Limit { return tier } })}))
	for _, step := range []struct {
		why  string
		tier []core.Limit
		want []int // remaining of each limit
	}{
		{"a nil tier means Limits", nil, []int{9}},
		{"so does an empty one", []core.Limit{}, []int{8}},
		{"what was used stays used after an upgrade", []core.Limit{core.PerHour(100)}, []int{97}},
		{"another algorithm has a state of its own", []core.Limit{core.PerHour(100).Using(core.SlidingLog)}, []int{99}},
		{"several limits", []core.Limit{core.PerHour(100), core.PerDay(5)}, []int{96, 4}},
	} {
		tier = step.tier
		d := must.Get(l.Check(get("/")))(t)
		must.Equal(t, len(d.Results), len(step.want), "%s: %+v", step.why, d)
		for i, want := range step.want {
			expect.Equal(t, d.Results[i].Remaining, want, "%s: limit %d", step.why, i)
		}
	}
}

func TestCheckSeveralRules(t *testing.T) {
	l := core.Must(core.New([]core.Rule{
		{Name: "all", Key: keyK, Limits: []core.Limit{core.PerHour(10), core.PerDay(20)}},
		{Name: "login", Key: keyK, Limits: []core.Limit{core.PerHour(1)}, Match: hasPath("/login")},
		{Name: "trial", Key: keyK, Limits: []core.Limit{core.PerHour(2)}, DryRun: true},
	}))
	for i, step := range []struct {
		path    string
		allowed bool
		left    []int
		why     string
	}{
		{"/", true, []int{9, 19, 1}, "results come in rule order, one per limit"},
		{"/login", true, []int{8, 18, 0, 0}, "the matching rule joins in"},
		{"/login", false, []int{8, 18, 0, 0}, "one denial charges nothing anywhere"},
		{"/", true, []int{7, 17, 0}, "an exhausted dry run does not deny"},
	} {
		d, err := l.Check(get(step.path))
		must.True(t, err == nil && d.Allowed == step.allowed && !d.At.IsZero(), "step %d: %s: got %+v, %v", i, step.why, d, err)
		for j, want := range step.left {
			expect.Equal(t, d.Results[j].Remaining, want, "step %d: %s: result %d: left", i, step.why, j)
		}
	}
	d, _ := l.Check(get("/login"))
	if r := d.Results; !r[0].Allowed || r[2].Allowed || r[2].Rule != "login" || r[3].Allowed || !r[3].DryRun || r[2].DryRun {
		t.Errorf("each result speaks for itself: got %+v", r)
	}
}

// A renaming store decides all claims under another rule.
type renaming struct{ core.MemoryStore }

func (s *renaming) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	own := slices.Clone(claims)
	for i := range own {
		own[i].Rule = "other"
	}
	return s.MemoryStore.Take(ctx, own, dst)
}

// A store in front of a MemoryStore may change the rule of a claim: the MemoryStore charges the new rule.
func TestMemoryStoreChargesTheRuleThatAClaimNames(t *testing.T) {
	s := new(renaming)
	l := core.Must(core.New([]core.Rule{perHour("r", 2)}, core.WithStore(s)))
	d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k"})
	must.True(t, err == nil && d.Results[0].Rule == "other", "got %+v, %v; want a result of the other rule", d, err)
	for rule, left := range map[string]int{"r": 2, "other": 1} {
		peek := core.Claim{Rule: rule, Key: "k", Limits: []core.Limit{core.PerHour(2)}, Peek: true}
		expect.Equal(t, must.Get(s.MemoryStore.Take(t.Context(), []core.Claim{peek}, nil))(t)[0].Remaining, left, "rule %s: remaining", rule)
	}
}

// A Take has at most 64 claims, in every method and store.
func TestTooManyClaims(t *testing.T) {
	l := core.Must(core.New([]core.Rule{plan(core.PerHour(100))}))
	claims := make([]core.Claim, 65)
	for i := range claims {
		claims[i] = core.Claim{Rule: "plan", Key: "k", Limits: []core.Limit{core.PerHour(100)}}
	}
	expect.NoError(t, expect.ErrorOf(l.Take(t.Context(), claims[:64]...)), "Take")
	wantError(t, expect.ErrorOf(l.Take(t.Context(), claims...)), core.ErrInvalid, "at most 64 claims, got 65")
	wantError(t, expect.ErrorOf(new(core.MemoryStore).Take(t.Context(), claims, nil)), core.ErrInvalid, "at most 64 claims, got 65")
}

// A Take has at most 64 claims, so New reports more than 64 rules that apply to every request. Usage makes several calls.
func TestTooManyRules(t *testing.T) {
	rules := make([]core.Rule, 65)
	for i := range rules {
		rules[i] = core.Rule{Name: fmt.Sprint("r", i), Key: constKey, Limits: []core.Limit{core.PerHour(5)}}
	}
	wantError(t, expect.ErrorOf(core.New(rules)), core.ErrInvalid, "65 rules have neither Routes nor Match")
	rules[3].Routes, rules[4].Match = []string{"/a"}, func(*http.Request) bool { return true }
	l := core.Must(core.New(rules))
	r := httptest.NewRequest("GET", "/b", nil)
	expect.Equal(t, len(must.Get(l.Check(r))(t).Results), 64, "results")
	_, err := l.Check(httptest.NewRequest("GET", "/a", nil))
	wantError(t, err, core.ErrInvalid, "at most 64 claims, got 65")
	if d, err := l.Usage(r); err != nil || len(d.Results) != 65 || d.Results[64].Rule != "r64" {
		t.Errorf("usage: %d results, %v", len(d.Results), err)
	}
}

func TestPeekChargesNothing(t *testing.T) {
	seen := new(recorder)
	l := core.Must(core.New([]core.Rule{core.PerHour(2).By(keyK)}, core.WithObserver(seen.observe)))
	for range 5 {
		if d, err := l.Peek(get("/")); err != nil || !d.Allowed || d.Results[0].Remaining != 2 {
			t.Fatalf("got %+v, %v; want allowed, and 2 remaining each time", d, err)
		}
	}
	l.Check(get("/"))
	l.Check(get("/"))
	if d, err := l.Peek(get("/")); err != nil || d.Allowed || d.Results[0].RetryAfter <= 0 {
		t.Errorf("got %+v, %v; want what Check would say: denied", d, err)
	}
	expect.Equal(t, len(seen.seen), 2, "how often observers were called (only of the 2 checks)")
}

func TestCarriedPeekIsNoDecision(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerHour(2).By(keyK)}))
	r := get("/")
	d, _ := l.Peek(r)
	expect.NoError(t, l.Refund(t.Context(), d), "Refund")
	r = r.WithContext(core.NewContext(r.Context(), d))
	expect.Equal(t, must.Get(l.Check(r))(t).Results[0].Remaining, 1, "a request whose context carries a peek was not charged")
}
