package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// byHeader is a key func that reads a header. The value "-" is an error of every kind.
func byHeader(r *http.Request) (string, error) {
	switch v := r.Header.Get("User"); v {
	case "":
		return "", core.ErrNoKey
	case "bad":
		return "", core.ErrBadKey
	case "invalid":
		return "", core.ErrInvalid
	case "broken":
		return "", errors.New("the directory is down")
	default:
		return "user:" + v, nil
	}
}

func limited(t *testing.T, tel *Telemetry, rules []core.Rule, opts ...core.Option) *core.Limiter {
	t.Helper()
	l := must.Get(core.New(rules, append(opts, core.WithObserver(tel.Observe))...))(t)
	tel.Attach(l)
	return l
}

func ask(l *core.Limiter, user string) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("User", user)
	_, _ = l.Check(r)
}

// counted returns the counts of s that are not 0, as "outcome", "outcome degraded" or "rule limit result".
func counted(s Snapshot) map[string]uint64 {
	all := make(map[string]uint64)
	for _, r := range s.Requests {
		name := r.Outcome
		if r.Degraded {
			name += " degraded"
		}
		if r.Count > 0 {
			all[name] = r.Count
		}
	}
	for _, r := range s.Results {
		if r.Count > 0 {
			all[r.Rule+" "+r.Limit+" "+r.Result] = r.Count
		}
	}
	return all
}

func wantCounts(t *testing.T, tel *Telemetry, want map[string]uint64) {
	t.Helper()
	got := counted(tel.Snapshot())
	for name := range want {
		expect.Equal(t, got[name], want[name], "%s", name)
	}
	for name := range got {
		_, ok := want[name]
		expect.True(t, ok, "%s: got %d, want none", name, got[name])
	}
}

func TestOutcomesAndResults(t *testing.T) {
	tel := New(Options{})
	l := limited(t, tel, []core.Rule{
		{Name: "api", Key: byHeader, Limits: []core.Limit{core.PerHour(3), core.PerDay(100)}},
		{Name: "trial", Key: byHeader, Limits: []core.Limit{core.PerHour(1)}, DryRun: true},
	})
	for range 5 {
		ask(l, "ann")
	}
	for _, user := range []string{"", "bad", "invalid", "broken"} {
		ask(l, user)
	}
	wantCounts(t, tel, map[string]uint64{
		"allowed": 3, "denied": 2, "no_key": 1, "bad_key": 1, "invalid": 2,
		"api 3/1h allowed": 2, "api 3/1h near": 1, "api 3/1h denied": 2,
		"api 100/1d allowed": 5,                             // denied by its own result
		"trial 1/1h near":    1, "trial 1/1h would_deny": 4, // a dry run does not know that the request was denied
	})
}

// A limit is near once less than a fifth of its capacity remains.
func TestNear(t *testing.T) {
	tel := New(Options{})
	l := limited(t, tel, []core.Rule{{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerHour(10)}}})
	for range 10 {
		ask(l, "ann")
	}
	ask(limited(t, tel, []core.Rule{{Name: "huge", Key: byHeader, Limits: []core.Limit{core.PerHour(1e9)}}}), "ann")
	wantCounts(t, tel, map[string]uint64{"allowed": 11, "r 10/1h allowed": 8, "r 10/1h near": 2, "huge 1000000000/1h allowed": 1})
}

// A store that fails every call, after a millisecond of fake time.
type failing struct{ core.Store }

func (failing) Take(context.Context, []core.Claim, []core.Result) ([]core.Result, error) {
	time.Sleep(time.Millisecond)
	return nil, errors.New("connection lost")
}

func TestPeeksAreNotCounted(t *testing.T) {
	tel := New(Options{})
	l := limited(t, tel, []core.Rule{{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerHour(1)}}})
	claims := []core.Claim{{Rule: "r", Key: "user:ann"}, {Rule: "r", Key: "user:bob", Peek: true}}
	for range 2 { // bob is not denied: ann is
		must.Get(l.Take(t.Context(), claims...))(t)
	}
	wantCounts(t, tel, map[string]uint64{"allowed": 1, "denied": 1, "r 1/1h near": 1, "r 1/1h denied": 1})
}

// What a request that may have to wait for its turn would hold then is a peek until then, which may deny the request.
func TestDenialsBeforeTheTurnAreCounted(t *testing.T) {
	tel := New(Options{})
	l := limited(t, tel, []core.Rule{
		{Name: "w", Limits: []core.Limit{core.PerHour(10)}, MaxWait: time.Second}, {Name: "held", Limits: []core.Limit{core.PerHour(1)}},
	})
	for range 3 {
		must.Get(l.Wait(t.Context(), core.Claim{Rule: "w", Key: "k"}, core.Claim{Rule: "held", Key: "k", Hold: true}))(t)
	}
	wantCounts(t, tel, map[string]uint64{"allowed": 1, "denied": 2, "w 10/1h allowed": 3, "held 1/1h near": 1, "held 1/1h denied": 2})
	top := tel.Top("held", 1)
	expect.True(t, len(top) == 1 && top[0].Count == 2, "denied most: %+v", top)
}

func TestLimitersAreSummedByRuleName(t *testing.T) {
	tel := New(Options{})
	rules := []core.Rule{{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerHour(100)}}}
	a, b := limited(t, tel, rules), limited(t, tel, rules)
	ask(a, "ann")
	ask(b, "ann")
	tel.Attach(a)
	expect.Equal(t, len(tel.Limiters()), 2, "limiters")
	wantCounts(t, tel, map[string]uint64{"allowed": 2, "r 100/1h allowed": 2})
}

// Attached rules are in a snapshot before the first request.
func TestAttachedRulesStartAtZero(t *testing.T) {
	tel := New(Options{})
	limited(t, tel, []core.Rule{{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerHour(100)}}})
	if s := tel.Snapshot(); len(s.Results) != len(resultNames) || s.Results[0] != (Results{"r", "100/1h", "allowed", 0}) {
		t.Errorf("got %+v", s.Results)
	}
}

// Clients choose keys and paths, and tiers choose limits. Neither may add series without bound.
func TestSeriesAreBounded(t *testing.T) {
	tel := New(Options{Top: 10, Log: slog.New(new(logRecorder))})
	rule := core.Rule{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerHour(1)}, Tier: func(r *http.Request) []core.Limit {
		return []core.Limit{core.PerHour(2 + len(r.URL.Path)*7)}
	}}
	l := limited(t, tel, []core.Rule{rule})
	for i := range 200 {
		r := httptest.NewRequest("GET", "/"+strings.Repeat("a", i/2), nil)
		r.Header.Set("User", string(rune('a'+i)))
		must.Get(l.Check(r))(t)
	}
	s := tel.Snapshot()
	expect.Equal(t, len(s.Results), (50+1)*len(resultNames), "series")
	var sum, rest uint64
	for _, r := range s.Results {
		sum += r.Count
		if r.Limit == other {
			rest += r.Count
		}
	}
	expect.True(t, sum == 200 && rest != 0, "got %d results, %d of them other", sum, rest)
	for i := range 200 { // the limits of the active rules are not other
		rule.Tier, rule.Limits = nil, []core.Limit{core.PerHour(5000 + i)}
		must.Do(t, l.SetRules([]core.Rule{rule}))
		tel.Snapshot() // reads them
		ask(l, "ann")
		s = tel.Snapshot()
		if i == 0 {
			expect.True(t, slices.Contains(s.Results, Results{"r", "5000/1h", "allowed", 1}), "got %v", s.Results)
		}
	}
	expect.Equal(t, len(s.Results), 100*len(resultNames), "series")
	for i := range 2 * maxRules {
		claims := []core.Claim{{Rule: time.Duration(i).String(), Key: "k", Limits: []core.Limit{core.PerHour(1)}}}
		_, _ = l.Take(t.Context(), claims...)
		tel.Observe(t.Context(), &core.Observation{Claims: claims, Err: core.ErrUnavailable})
	}
	expect.Equal(t, len(tel.rules.Load().all), maxRules+1, "rules")
	expect.AtMost(t, len(tel.log.streams), maxRules+2, "subjects of warnings")
}

// Limits that differ only in their notation share their counts, because a label must not occur twice.
func TestLimitsWithOneLabelShareCounts(t *testing.T) {
	r := newRule("r", 1)
	a, b := core.PerMonth(5), core.Limit{Rate: 5, Calendar: core.Calendar{Unit: core.CalendarMonth}, Algorithm: core.FixedWindow}
	must.Equal(t, a.String(), b.String(), "the label")
	must.True(t, a != b, "the limits are equal")
	first, again := r.limit(&a), r.limit(&a)
	expect.True(t, first == again && first == r.limit(&b), "got two counts for one label")
	expect.Equal(t, len(r.results()), len(resultNames), "results")
}

func TestForwardPassesObservationsOn(t *testing.T) {
	tel := New(Options{})
	n := 0
	for range 2 {
		tel.Forward(func(_ context.Context, o *core.Observation) { n += len(o.Claims) })
	}
	l := limited(t, tel, []core.Rule{{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerHour(100)}}})
	ask(l, "ann")
	ask(l, "")
	expect.Equal(t, n, 4, "claims")
}

func TestFileLoaded(t *testing.T) {
	tel := New(Options{})
	bad := errors.New("spillgate.yaml:3:1: no")
	tel.FileLoaded("spillgate.yaml", "abc", nil)
	tel.FileLoaded("spillgate.yaml", "", bad)
	f := tel.Snapshot().File
	expect.True(t, f.Path == "spillgate.yaml" && f.Hash == "abc" && f.Loads == 1 && f.Failures == 1 && f.Err == bad && !f.Loaded.IsZero(),
		"got %+v", f)
}

func observed(allowed bool) (*Telemetry, *core.Observation) {
	limit := core.PerMinute(100)
	claim := core.Claim{Rule: "api", Key: "ip:203.0.113.9", Limits: []core.Limit{limit}, Cost: 1}
	result := core.Result{Rule: "api", Limit: limit, Allowed: allowed, Remaining: 50, RetryAfter: time.Second}
	o := &core.Observation{Claims: []core.Claim{claim}}
	o.Decision = core.Decision{Allowed: allowed, At: time.Now(), Results: []core.Result{result}}
	return New(Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}), o
}

func TestObserveDoesNotAllocate(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		tel, o := observed(allowed)
		n := testing.AllocsPerRun(1000, func() { tel.Observe(context.Background(), o) })
		expect.Equal(t, n, 0, "allowed %v: allocations", allowed)
	}
	for _, isOverridden := range []bool{false, true} {
		checkNewKeys(t, isOverridden)
	}
}

// checkNewKeys checks that Observe does not allocate for new keys once the table of keys is full.
func checkNewKeys(t *testing.T, isOverridden bool) {
	t.Helper()
	tel, o := observed(isOverridden)
	o.Claims[0].Overridden = isOverridden
	keys := make([]string, 1<<12)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	i := 0
	observe := func() {
		o.Claims[0].Key = keys[i%len(keys)]
		i++
		tel.Observe(context.Background(), o)
	}
	for range keys { // fills the table of keys
		observe()
	}
	expect.Equal(t, testing.AllocsPerRun(len(keys), observe), 0, "new keys, overridden %v: allocations", isOverridden)
}
