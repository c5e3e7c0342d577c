package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// allow takes n requests of a key and checks how many of them are admitted.
func allow(t *testing.T, l *core.Limiter, key string, n, want int) {
	t.Helper()
	admitted := 0
	for range n {
		d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			admitted++
		}
	}
	if admitted != want {
		t.Errorf("%d of %d requests of %s are admitted, want %d", admitted, n, key, want)
	}
}

func left(t *testing.T, l *core.Limiter, key string, limits ...core.Limit) core.Result {
	t.Helper()
	d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: key, Limits: limits, Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	return d.Results[0]
}

func plan(limits ...core.Limit) core.Rule {
	return core.Rule{Name: "plan", Key: constKey, Limits: limits}
}

func TestBillingMonthOverFebruary(t *testing.T) {
	for _, tt := range []struct{ begin, next string }{
		{"2023-01-31T00:00:00Z", "2023-02-28T00:00:00Z"},
		{"2024-01-31T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"2024-02-29T12:00:00Z", "2024-03-31T00:00:00Z"},
		{"2023-02-28T23:59:59Z", "2023-03-31T00:00:00Z"},
	} {
		now, _ := time.Parse(time.RFC3339, tt.begin)
		next, _ := time.Parse(time.RFC3339, tt.next)
		l := core.Must(core.New([]core.Rule{plan(core.PerMonth(100).From(31))}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
		allow(t, l, "k", 101, 100)
		if wait := left(t, l, "k").RetryAfter; wait != next.Sub(now) {
			t.Errorf("from %s: wait %v, want until %s", tt.begin, wait, tt.next)
		}
		now = next.Add(-time.Microsecond)
		allow(t, l, "k", 1, 0)
		now = next
		allow(t, l, "k", 101, 100)
	}
}

func TestCalendarDayIsAsLongAsTheLocalDay(t *testing.T) {
	now := time.Date(2026, 11, 1, 4, 0, 0, 0, time.UTC) // midnight in New York, of a day of 25 hours
	l := core.Must(core.New([]core.Rule{plan(core.PerDay(3).In("America/New_York"))}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
	allow(t, l, "k", 4, 3)
	if wait := left(t, l, "k").RetryAfter; wait != 25*time.Hour {
		t.Errorf("wait %v, want 25h", wait)
	}
	now = now.Add(24 * time.Hour)
	allow(t, l, "k", 1, 0)
	now = now.Add(time.Hour)
	allow(t, l, "k", 4, 3)
}

func TestClockSteppingBackAcrossAMonthAdmitsNothingTwice(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 1, 0, time.UTC)
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(3))}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
	allow(t, l, "k", 4, 3)
	now = now.Add(-2 * time.Second)
	allow(t, l, "k", 4, 0)
	now = now.Add(2 * time.Second)
	allow(t, l, "k", 4, 0)
}

// After the clock went back, the next window stays unchanged and a later window becomes the current one: nobody is denied for
// longer than one window.
func TestClockSteppingBackByMonths(t *testing.T) {
	for back, want := range map[string]string{"2026-05-10": "2026-07-01", "2026-04-10": "2026-05-01", "2025-06-10": "2025-07-01"} {
		now := time.Date(2026, 6, 10, 0, 0, 0, 0, time.UTC)
		l := core.Must(core.New([]core.Rule{plan(core.PerMonth(3))}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
		allow(t, l, "k", 4, 3)
		now, _ = time.Parse(time.DateOnly, back)
		allow(t, l, "k", 1, 0)
		if got := now.Add(left(t, l, "k").RetryAfter).Format(time.DateOnly); got != want {
			t.Errorf("on %s, a request is denied until %s, want %s", back, got, want)
		}
	}
}

// Requests of many goroutines over a midnight that does not exist: each day admits exactly the rate, and no request is undecided.
func TestNewDayUnderLoad(t *testing.T) {
	limit := core.PerDay(1000).In("America/Sao_Paulo")
	_, turn := limit.Calendar.Window(time.Date(2018, 11, 3, 12, 0, 0, 0, time.UTC))
	if turn.Hour() != 1 {
		t.Fatalf("the day starts at %v, want 01:00", turn)
	}
	var asked atomic.Int64 // each look at the clock is 10 µs later
	now := func() time.Time {
		return turn.Add(time.Duration(asked.Add(1))*10*time.Microsecond - 20*time.Millisecond)
	}
	l := core.Must(core.New([]core.Rule{plan(limit)}, core.WithStore(&core.MemoryStore{Now: now})))
	var admitted [2]atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "k"})
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed && d.At.Before(turn) {
					admitted[0].Add(1)
				} else if d.Allowed {
					admitted[1].Add(1)
				}
			}
		})
	}
	all.Wait()
	if before, after := admitted[0].Load(), admitted[1].Load(); before != 1000 || after != 1000 {
		t.Errorf("%d were admitted before the turn and %d after it, want 1000 each", before, after)
	}
}

func TestUpgradeInMidMonthKeepsTheUsage(t *testing.T) {
	month := core.PerMonth(100).In("Europe/Berlin").From(15)
	l := core.Must(core.New([]core.Rule{plan(month)}))
	allow(t, l, "k", 60, 60)
	month.Rate = 1000
	if got := left(t, l, "k", month).Remaining; got != 940 {
		t.Errorf("%d remain of 1000 after 60 were used, want 940", got)
	}
	for why, other := range map[string]core.Limit{"another day": month.From(16), "another zone": month.In("Europe/Paris"), "another unit": core.PerYear(1000).In("Europe/Berlin")} {
		if got := left(t, l, "k", other).Remaining; got != 1000 {
			t.Errorf("%s: %d remain, want a new count of 1000", why, got)
		}
	}
}

func grant(t *testing.T, l *core.Limiter, key string, n int) {
	t.Helper()
	if err := l.Grant(t.Context(), "plan", key, n); err != nil {
		t.Fatal(err)
	}
}

func TestGrantMistakes(t *testing.T) {
	tiered := core.Rule{Name: "tiered", Key: constKey, Limits: []core.Limit{core.PerMonth(5)}, Tier: func(*http.Request) []core.Limit { return nil }}
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(5)), tiered}))
	tests := []struct {
		rule, key string
		n         int
		limits    []core.Limit
		kind      error
		want      string
	}{
		{"plan", "k", 0, nil, core.ErrInvalid, "and not 0, got 0"},
		{"plan", "k", 1_000_000_001, nil, core.ErrInvalid, "requests must be between -1000000000 and 1000000000"},
		{"plan", "k", -1_000_000_001, nil, core.ErrInvalid, "requests must be between -1000000000 and 1000000000"},
		{"plan", "", 1, nil, core.ErrNoKey, "grant of rule"},
		{"pln", "k", 1, nil, core.ErrInvalid, `there is no rule "pln"`},
		{"tiered", "k", 1, nil, core.ErrInvalid, "the rule has a Tier"},
		{"plan", "k", 1, []core.Limit{{}}, core.ErrInvalid, "period must be"},
	}
	for _, tt := range tests {
		wantError(t, l.Grant(t.Context(), tt.rule, tt.key, tt.n, tt.limits...), tt.kind, tt.want)
	}
	if err := l.Grant(t.Context(), "tiered", "k", 1, core.PerMonth(7)); err != nil {
		t.Error(err)
	}
	for _, n := range []int{1_000_000_000, -1_000_000_000} {
		if err := l.Grant(t.Context(), "plan", "k", n); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestGrantFailsWithTheStore(t *testing.T) {
	s := new(faulty)
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(5))}, core.WithStore(s)))
	s.fault = refuse
	wantError(t, l.Grant(t.Context(), "plan", "k", 5), core.ErrUnavailable, "refused")
	allow(t, l, "k", 6, 5) // of the fallback
	s.fault = nil
	if got := s.memory.Stats().Keys; got != 0 {
		t.Errorf("the store has %d keys", got)
	}
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
		if err != nil || calls != 1 {
			t.Fatalf("%s: %v, after %d calls of Override", key, err, calls)
		}
		if got := d.Results[0].Limit.Rate; got != want {
			t.Errorf("%s: limit %d, want %d", key, got, want)
		}
	}
	check("a", "", 3)
	check("a", "x", 7)
	check("partner", "x", 50)
	check("blocked", "", 0)
	for _, key := range []string{"wrong", "panics"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Key", key)
		_, err := l.Check(r)
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", key, err)
		}
		if _, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: key}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("Take of %s: got %v, want ErrInvalid", key, err)
		}
	}
	d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "partner"})
	if err != nil || d.Results[0].Limit.Rate != 50 || d.Results[0].Remaining != 48 {
		t.Errorf("Take of partner: %+v, %v; want 48 of 50 left", d.Results, err)
	}
	d, err = l.Take(t.Context(), core.Claim{Rule: "plan", Key: "partner", Limits: []core.Limit{core.PerHour(9)}})
	if err != nil || d.Results[0].Limit.Rate != 9 {
		t.Errorf("Take with limits of its own: %+v, %v", d.Results, err)
	}
	if _, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "a"}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Take of a key without an override, of a rule with a Tier: got %v", err)
	}
	if err := l.Grant(t.Context(), "plan", "partner", 10); err != nil {
		t.Error(err)
	}
}

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
		{Name: "plan", Key: header("User"), Limits: []core.Limit{core.PerMonth(100), core.PerMinute(10)}, Routes: []string{"POST /orders"}},
		{Name: "team", Key: header("Team"), Limits: []core.Limit{core.PerHour(5)}},
		{Name: "export", Key: header("User"), Limits: []core.Limit{core.PerDay(50)}, Match: never, Cost: func(*http.Request) int { return 20 }},
		{Name: "jobs", Limits: []core.Limit{core.PerDay(50)}},
	}
	l := core.Must(core.New(rules, core.WithObserver(func(_ context.Context, _ *core.Observation) { observed++ })))
	r := httptest.NewRequest("GET", "/usage", nil)
	r.Header.Set("User", "ann")
	for range 1000 {
		d, err := l.Usage(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Results) != 3 || d.Results[0].Remaining != 100 || d.Results[1].Remaining != 10 || d.Results[2].Rule != "export" || d.Results[2].Remaining != 50 {
			t.Fatalf("got %+v, want all of plan and export", d.Results)
		}
	}
	if observed > 0 {
		t.Errorf("observers were called %d times", observed)
	}
	if d, err := l.Usage(httptest.NewRequest("GET", "/usage", nil)); err != nil || len(d.Results) > 0 {
		t.Errorf("without any key: got %+v, %v", d, err)
	}
	r.Header.Set("Team", "bad")
	if _, err := l.Usage(r); !errors.Is(err, core.ErrBadKey) {
		t.Errorf("with a bad key: got %v", err)
	}
}

// TestUsageOfManyRules checks that a call of the store gets at most 64 claims.
func TestUsageOfManyRules(t *testing.T) {
	var rules []core.Rule
	for i := range 130 {
		rules = append(rules, core.Rule{Name: fmt.Sprint("rule-", i), Key: constKey, Routes: []string{fmt.Sprintf("/%d", i)}, Limits: []core.Limit{core.PerDay(i + 1)}})
	}
	store := new(countedTakes)
	d, err := core.Must(core.New(rules, core.WithStore(store))).Usage(get("/"))
	if err != nil || len(d.Results) != 130 || !slices.Equal(store.sizes, []int{64, 64, 2}) {
		t.Fatalf("%d results by takes of %v claims, %v", len(d.Results), store.sizes, err)
	}
	for i, r := range d.Results {
		if r.Rule != fmt.Sprint("rule-", i) || r.Remaining != i+1 {
			t.Errorf("result %d: %+v", i, r)
		}
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
	if _, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "ann", Cost: 3}, core.Claim{Rule: "uploads", Key: "ann", Hold: true}); err != nil {
		t.Fatal(err)
	}
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
			if err != nil || !d.Allowed || !slices.Equal(left, tt.want) {
				t.Errorf("%s of %s: %v left, %v, want %v", tt.rule, tt.key, left, err, tt.want)
			}
		}
	}
	if observed > 0 {
		t.Errorf("observers were called %d times", observed)
	}
	for _, tt := range []struct {
		rule, key string
		limits    []core.Limit
		kind      error
		want      string
	}{
		{"plans", "ann", nil, core.ErrInvalid, `usage: there is no rule "plans"`},
		{"plan", "", nil, core.ErrNoKey, `usage of rule "plan"`},
		{"tier", "ann", nil, core.ErrInvalid, `usage of rule "tier": the rule has a Tier`},
		{"plan", "ann", []core.Limit{core.PerDay(-1)}, core.ErrInvalid, `usage of rule "plan"`},
	} {
		_, err := l.UsageOf(t.Context(), tt.rule, tt.key, tt.limits...)
		wantError(t, err, tt.kind, tt.want)
	}
}

func TestUsageOfWithoutTheStore(t *testing.T) {
	for mode, want := range map[core.FailureMode]error{core.FailLocal: nil, core.FailOpen: nil, core.FailClosed: core.ErrUnavailable} {
		l := core.Must(core.New([]core.Rule{{Name: "plan", Limits: []core.Limit{core.PerDay(5)}, OnFailure: mode}}, core.WithStore(&faulty{fault: refuse})))
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
	if _, err := l.Usage(r); err != nil || r.PostForm.Get("user") != "ann" {
		t.Errorf("got the form %v, %v, want the user ann", r.PostForm, err)
	}
}

// A request whose context carries its usage has not been decided.
func TestUsageInAContextIsNoDecision(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerDay(5).By(constKey)}))
	r := get("/")
	d, err := l.Usage(r)
	if err != nil {
		t.Fatal(err)
	}
	d, err = l.Check(r.WithContext(core.NewContext(r.Context(), d)))
	if err != nil || len(d.Results) != 1 || d.Results[0].Remaining != 4 {
		t.Errorf("got %+v, %v, want 4 remaining after a charge", d.Results, err)
	}
}

func TestUsageFails(t *testing.T) {
	closed := plan(core.PerDay(5))
	closed.OnFailure = core.FailClosed
	panics := core.PerDay(5).By(func(*http.Request) (string, error) { panic("ouch") })
	for _, tt := range []struct {
		limiter *core.Limiter
		kind    error
		want    string
	}{
		{nil, core.ErrInvalid, "the limiter is nil"},
		{new(core.Limiter), core.ErrInvalid, "not made by New"},
		{core.Must(core.New([]core.Rule{panics})), core.ErrInvalid, `rule "default": a callback panicked: ouch`},
		{core.Must(core.New([]core.Rule{closed}, core.WithStore(&faulty{fault: refuse}))), core.ErrUnavailable, "refused"},
	} {
		d, err := tt.limiter.Usage(get("/"))
		wantError(t, err, tt.kind, tt.want)
		if len(d.Results) > 0 {
			t.Errorf("%q: got %+v", tt.want, d)
		}
	}
	_, err := core.Must(core.New([]core.Rule{closed})).Usage(nil)
	wantError(t, err, core.ErrInvalid, "the request is nil")
}

func TestHundredGrantsNeverAddUpToMore(t *testing.T) {
	const grants, apart, kept = 100, 30 * time.Second, 60
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	l := core.Must(core.New([]core.Rule{plan(core.PerHour(10).Using(core.SlidingLog))}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
	for i := range 2 * grants {
		now = now.Add(apart)
		if i < grants {
			grant(t, l, "k", 1)
		}
		d, err := l.UsageOf(t.Context(), "plan", "k")
		if err != nil {
			t.Fatal(err)
		}
		got, want := d.Results[0].Granted, min(i+1, grants) // of an hour, the first grants have not ended
		if ended := i + 1 - int(time.Hour/apart); ended > 0 {
			want = max(want-ended, 0)
		}
		if got > want || i < kept && got != want {
			t.Errorf("%v after the first grant: %d are granted, want %d", now, got, want)
		}
	}
}
