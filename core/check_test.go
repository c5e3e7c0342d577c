package core_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// remaining returns what the first limit of rule leaves for key "k".
func remaining(t *testing.T, l *core.Limiter, rule string) int {
	t.Helper()
	d, err := l.Take(t.Context(), core.Claim{Rule: rule, Key: "k", Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	return d.Results[0].Remaining
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

func TestCheckWithoutClaims(t *testing.T) {
	no := func(*http.Request) bool { return false }
	yes := func(*http.Request) bool { return true }
	noKey := func(*http.Request) (string, error) { return "", core.ErrNoKey }
	tests := []struct {
		why  string
		rule core.Rule
		opts []core.Option
	}{
		{"no rule matches, so nobody asks for a key", allow10(func(r *core.Rule) { r.Match, r.Key = no, noKey }), nil},
		{"a cost of 0 needs no key either", allow10(func(r *core.Rule) { r.Cost, r.Key = cost(0), noKey }), nil},
		{"a request to skip asks no rule", allow10(func(r *core.Rule) { r.Key = noKey }), []core.Option{core.WithSkip(yes)}},
	}
	for _, tt := range tests {
		l := core.Must(core.New([]core.Rule{tt.rule}, tt.opts...))
		d, err := l.Check(get("/"))
		if err != nil || !d.Allowed || len(d.Results) != 0 || !d.At.IsZero() {
			t.Errorf("%s: got %+v, %v; want allowed without results", tt.why, d, err)
		}
		if got := remaining(t, l, "r"); got != 10 {
			t.Errorf("%s: got %d left, want all 10", tt.why, got)
		}
	}
}

func TestCheckFaultsOfTheRequest(t *testing.T) {
	boom := errors.New("boom")
	panics := func() { panic("ouch") }
	tests := []struct {
		why  string
		edit func(*core.Rule)
		kind error
		want string
	}{
		{"no key", func(r *core.Rule) {
			r.Key = func(*http.Request) (string, error) { return "", fmt.Errorf("header x: %w", core.ErrNoKey) }
		}, core.ErrNoKey, `rule "r": header x: no key`},
		{"an empty key is none", func(r *core.Rule) { r.Key = func(*http.Request) (string, error) { return "", nil } }, core.ErrNoKey, "the key func returned an empty key: no key"},
		{"an error beside a key counts", func(r *core.Rule) { r.Key = func(*http.Request) (string, error) { return "k", boom } }, boom, `spillgate: rule "r": boom`},
		{"a key func panics", func(r *core.Rule) { r.Key = func(*http.Request) (string, error) { panics(); return "", nil } }, core.ErrInvalid, `rule "r": a callback panicked: ouch`},
		{"match panics", func(r *core.Rule) { r.Match = func(*http.Request) bool { panics(); return false } }, core.ErrInvalid, `rule "r": a callback panicked: ouch`},
		{"cost panics", func(r *core.Rule) { r.Cost = func(*http.Request) int { panics(); return 0 } }, core.ErrInvalid, `rule "r": a callback panicked: ouch`},
		{"tier panics", func(r *core.Rule) { r.Tier = func(*http.Request) []core.Limit { panics(); return nil } }, core.ErrInvalid, `rule "r": a callback panicked: ouch`},
		{"a negative cost would give back", func(r *core.Rule) { r.Cost = cost(-1) }, core.ErrInvalid, `rule "r": cost must not be negative, got -1`},
		{"a tier with a bad limit", func(r *core.Rule) {
			r.Tier = func(*http.Request) []core.Limit { return []core.Limit{core.PerHour(1), core.PerMinute(-5)} }
		}, core.ErrInvalid, `rule "r": tier: limit 2: rate must be between 0 and 1000000000, got -5`},
		{"a tier whose limits share state", func(r *core.Rule) {
			r.Tier = func(*http.Request) []core.Limit { return []core.Limit{core.PerHour(1), core.PerHour(2)} }
		}, core.ErrInvalid, `rule "r": tier: limits 1 and 2 are both`},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			seen := new(recorder)
			before := core.Rule{Name: "before", Key: keyK, Limits: []core.Limit{core.PerHour(10)}}
			l := core.Must(core.New([]core.Rule{before, allow10(tt.edit)}, core.WithObserver(seen.observe)))
			for _, ask := range []func(*http.Request) (core.Decision, error){l.Check, l.Peek} {
				d, err := ask(get("/"))
				if !errors.Is(err, tt.kind) || d.Allowed || d.Results != nil {
					t.Fatalf("got %+v, %v; want an error that wraps %v", d, err, tt.kind)
				}
				if !strings.HasPrefix(err.Error(), "spillgate: ") || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got error %q, want it to say %q", err, tt.want)
				}
			}
			if got := remaining(t, l, "before"); got != 10 {
				t.Errorf("the rule before was charged: %d left", got)
			}
		})
	}
}

func TestSkipPanics(t *testing.T) {
	l := core.Must(core.New([]core.Rule{allow10()}, core.WithSkip(func(*http.Request) bool { panic("ouch") })))
	d, err := l.Check(get("/"))
	wantError(t, err, core.ErrInvalid, "skip: a callback panicked: ouch")
	if d.Allowed {
		t.Error("a panic admitted the request")
	}
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
	if d, err := l.Check(&http.Request{RemoteAddr: "a"}); err != nil || !d.Allowed {
		t.Errorf("a request without a context: got %+v, %v", d, err)
	}
	if r, d, err := guard(l, &http.Request{RemoteAddr: "a"}); err != nil || d.Results[0].Remaining != 8 || core.RoutePattern(r) != "" {
		t.Errorf("a request without a context: got %+v, %v", d, err)
	}
}

func TestCheckHugeKey(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	l := core.Must(core.New([]core.Rule{core.PerMinute(1).By(func(*http.Request) (string, error) { return huge, nil })}))
	for _, want := range []bool{true, false} {
		if d, err := l.Check(get("/")); err != nil || d.Allowed != want {
			t.Errorf("got %v, %v; want allowed %v", d.Allowed, err, want)
		}
	}
}

func hasPath(path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.URL.Path == path }
}

func TestCheckNil(t *testing.T) {
	l := core.Must(core.New([]core.Rule{plan(core.PerHour(100))}))
	_, err := l.Check(nil)
	wantError(t, err, core.ErrInvalid, "the request is nil")
	_, err = l.Peek(nil)
	wantError(t, err, core.ErrInvalid, "the request is nil")
	_, err = l.Usage(nil)
	wantError(t, err, core.ErrInvalid, "the request is nil")
	g, err := l.Guard(nil, nil, nil) //nolint:staticcheck // a nil context is a mistake, too
	wantError(t, err, core.ErrInvalid, "the request is nil")
	if g.Admitted() || g.Request() == nil {
		t.Error("a guard without a request admits one, or returns none")
	}
	g.End()
}
