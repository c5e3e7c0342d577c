package core_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestCheckCost(t *testing.T) {
	tests := []struct {
		cost    int
		allowed bool
		left    int
		why     string
	}{
		{1, true, 9, "the default cost"},
		{10, true, 0, "the whole capacity"},
		{11, false, 10, "more than can ever be admitted"},
		{1 << 62, false, 10, "an absurd cost overflows nothing"},
	}
	for _, tt := range tests {
		l := core.Must(core.New([]core.Rule{allow10(func(r *core.Rule) { r.Cost = cost(tt.cost) })}))
		d, err := l.Check(get("/"))
		if err != nil || d.Allowed != tt.allowed || len(d.Results) != 1 {
			t.Errorf("%s: cost %d: got %+v, %v", tt.why, tt.cost, d, err)
		}
		if !tt.allowed && d.Results[0].RetryAfter != core.Never {
			t.Errorf("%s: got RetryAfter %v, want Never", tt.why, d.Results[0].RetryAfter)
		}
		if got := remaining(t, l, "r"); got != tt.left {
			t.Errorf("%s: got %d left, want %d", tt.why, got, tt.left)
		}
	}
}

func TestCheckTier(t *testing.T) {
	var tier []core.Limit
	l := core.Must(core.New([]core.Rule{allow10(func(r *core.Rule) {
		r.Tier = func(*http.Request) []core.Limit { return tier }
	})}))
	steps := []struct {
		why  string
		tier []core.Limit
		want []int // remaining of each limit
	}{
		{"a nil tier means Limits", nil, []int{9}},
		{"so does an empty one", []core.Limit{}, []int{8}},
		{"what was used stays used after an upgrade", []core.Limit{core.PerHour(100)}, []int{97}},
		{"another algorithm has a state of its own", []core.Limit{core.PerHour(100).Using(core.SlidingLog)}, []int{99}},
		{"several limits", []core.Limit{core.PerHour(100), core.PerDay(5)}, []int{96, 4}},
	}
	for _, step := range steps {
		tier = step.tier
		d, err := l.Check(get("/"))
		if err != nil || len(d.Results) != len(step.want) {
			t.Fatalf("%s: got %+v, %v", step.why, d, err)
		}
		for i, want := range step.want {
			if got := d.Results[i].Remaining; got != want {
				t.Errorf("%s: limit %d: got %d, want %d", step.why, i, got, want)
			}
		}
	}
}

func TestCheckSeveralRules(t *testing.T) {
	l := core.Must(core.New([]core.Rule{
		{Name: "all", Key: keyK, Limits: []core.Limit{core.PerHour(10), core.PerDay(20)}},
		{Name: "login", Key: keyK, Limits: []core.Limit{core.PerHour(1)}, Match: hasPath("/login")},
		{Name: "trial", Key: keyK, Limits: []core.Limit{core.PerHour(2)}, DryRun: true},
	}))
	steps := []struct {
		path    string
		allowed bool
		left    []int
		why     string
	}{
		{"/", true, []int{9, 19, 1}, "results come in rule order, one per limit"},
		{"/login", true, []int{8, 18, 0, 0}, "the matching rule joins in"},
		{"/login", false, []int{8, 18, 0, 0}, "one denial charges nothing anywhere"},
		{"/", true, []int{7, 17, 0}, "an exhausted dry run does not deny"},
	}
	for i, step := range steps {
		d, err := l.Check(get(step.path))
		if err != nil || d.Allowed != step.allowed || d.At.IsZero() {
			t.Fatalf("step %d: %s: got %+v, %v", i, step.why, d, err)
		}
		for j, want := range step.left {
			if got := d.Results[j].Remaining; got != want {
				t.Errorf("step %d: %s: result %d: got %d left, want %d", i, step.why, j, got, want)
			}
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

// A MemoryStore charges the rule that a claim names, even if a store in front of it has changed the name.
func TestMemoryStoreChargesTheRuleThatAClaimNames(t *testing.T) {
	s := new(renaming)
	l := core.Must(core.New([]core.Rule{perHour("r", 2)}, core.WithStore(s)))
	d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k"})
	if err != nil || d.Results[0].Rule != "other" {
		t.Fatalf("got %+v, %v; want a result of the other rule", d, err)
	}
	for rule, left := range map[string]int{"r": 2, "other": 1} {
		peek := core.Claim{Rule: rule, Key: "k", Limits: []core.Limit{core.PerHour(2)}, Peek: true}
		if got, err := s.MemoryStore.Take(t.Context(), []core.Claim{peek}, nil); err != nil || got[0].Remaining != left {
			t.Errorf("rule %s: got %+v, %v; want %d remaining", rule, got, err, left)
		}
	}
}

// Claims that no rule of the limiter made are charged to the rule that they name, too.
func TestClaimsOfUnknownRulesAreChargedToTheirRules(t *testing.T) {
	s := new(core.MemoryStore)
	l := core.Must(core.New([]core.Rule{perHour("r", 2)}, core.WithStore(s)))
	for _, rule := range []string{"a", "b"} {
		claim := core.Claim{Rule: rule, Key: "k", Limits: []core.Limit{core.PerHour(2)}}
		d, err := l.Take(t.Context(), claim)
		if err != nil || d.Results[0].Remaining != 1 {
			t.Errorf("rule %s: got %+v, %v; want 1 remaining", rule, d, err)
		}
		if got, err := s.Take(t.Context(), []core.Claim{claim}, nil); err != nil || got[0].Remaining != 0 {
			t.Errorf("rule %s without a limiter: got %+v, %v; want 0 remaining", rule, got, err)
		}
	}
}

// A claim that an observer was shown says nothing about the next request that it is used for.
func TestObservedClaimCanBeTakenAgain(t *testing.T) { synctest.Test(t, testObservedClaim) }

func testObservedClaim(t *testing.T) {
	var seen core.Claim
	s := &faulty{fault: func(context.Context) error { return errRefused }}
	open := perHour("r", 2)
	open.OnFailure = core.FailOpen
	l := withStore(s, []core.Rule{open}, core.WithLogger(slog.New(slog.DiscardHandler)),
		core.WithObserver(func(_ context.Context, o *core.Observation) { seen = o.Claims[0] }))
	openBreaker(t, l)
	if d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k"}); err != nil || len(d.Results) != 0 {
		t.Fatalf("got %+v, %v; want a request that failed open", d, err)
	}
	s.fault = nil
	time.Sleep(time.Second) // the breaker allows a probe
	for range 2 {
		d, err := l.Take(t.Context(), seen)
		if err != nil || len(d.Results) != 1 || d.Results[0].Remaining != 1 {
			t.Fatalf("got %+v, %v; want 1 remaining", d, err)
		}
		if err := l.Refund(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

// A Take has at most 64 claims, in every method and store.
func TestTooManyClaims(t *testing.T) {
	l := core.Must(core.New([]core.Rule{plan(core.PerHour(100))}))
	claims := make([]core.Claim, 65)
	for i := range claims {
		claims[i] = core.Claim{Rule: "plan", Key: "k", Limits: []core.Limit{core.PerHour(100)}}
	}
	if _, err := l.Take(t.Context(), claims[:64]...); err != nil {
		t.Error(err)
	}
	_, err := l.Take(t.Context(), claims...)
	wantError(t, err, core.ErrInvalid, "at most 64 claims, got 65")
	_, err = new(core.MemoryStore).Take(t.Context(), claims, nil)
	wantError(t, err, core.ErrInvalid, "at most 64 claims, got 65")
}

// New reports rules that every request would be charged under, if they are too many for one Take. Usage needs several calls.
func TestTooManyRules(t *testing.T) {
	rules := make([]core.Rule, 65)
	for i := range rules {
		rules[i] = core.Rule{Name: fmt.Sprint("r", i), Key: constKey, Limits: []core.Limit{core.PerHour(5)}}
	}
	_, err := core.New(rules)
	wantError(t, err, core.ErrInvalid, "65 rules have neither Routes nor Match")
	rules[3].Routes, rules[4].Match = []string{"/a"}, func(*http.Request) bool { return true }
	l := core.Must(core.New(rules))
	r := httptest.NewRequest("GET", "/b", nil)
	if d, err := l.Check(r); err != nil || len(d.Results) != 64 {
		t.Errorf("%d results, %v", len(d.Results), err)
	}
	_, err = l.Check(httptest.NewRequest("GET", "/a", nil))
	wantError(t, err, core.ErrInvalid, "at most 64 claims, got 65")
	if d, err := l.Usage(r); err != nil || len(d.Results) != 65 || d.Results[64].Rule != "r64" {
		t.Errorf("usage: %d results, %v", len(d.Results), err)
	}
}
