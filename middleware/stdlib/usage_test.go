package stdlib_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// A counted store counts its calls, and fails if down is set.
type counted struct {
	core.MemoryStore
	down  bool
	takes int
}

func (s *counted) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if s.takes++; s.down {
		return dst, errors.New("connection lost")
	}
	return s.MemoryStore.Take(ctx, claims, dst)
}

func askUsage(h http.Handler, user string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/usage", nil)
	if user != "" {
		r.Header.Set("X-User", user)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func usageRules(mode core.FailureMode) []core.Rule {
	user := keyfunc.Header("X-User")
	return []core.Rule{
		{Name: "plan", Key: user, Limits: []core.Limit{core.PerMonth(10_000), core.PerHour(100).Using(core.FixedWindow)}, Routes: []string{"POST /orders"}, OnFailure: mode},
		{Name: "uploads", Key: user, Limits: []core.Limit{core.AtOnce(2)}, OnFailure: mode},
		{Name: "trial", Key: user, Limits: []core.Limit{core.PerDay(5)}, DryRun: true, OnFailure: mode},
	}
}

func TestUsage(t *testing.T) {
	now := time.Date(2026, 11, 23, 16, 30, 0, 0, time.UTC)
	store := &counted{MemoryStore: core.MemoryStore{Now: func() time.Time { return now }}}
	l := core.Must(core.New(usageRules(core.FailLocal), core.WithStore(store)))
	h := stdlib.NewUsage(l)
	must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: "header:x-user:ann", Cost: 30}))(t)
	store.takes = 0
	var first string
	for range 1000 {
		w := askUsage(h, "ann")
		must.True(t, w.Code == 200 && w.Header().Get("Cache-Control") == "no-store" && w.Header().Get("Content-Type") == "application/json",
			"got %d, %v", w.Code, w.Header())
		if first == "" {
			first = w.Body.String()
		}
		must.True(t, w.Body.String() == first, "a poll changed the usage:\n%s\n%s", first, w.Body)
	}
	expect.Equal(t, store.takes, 1000, "calls of the store by 1000 polls")
	var got, want any
	_ = json.Unmarshal([]byte(first), &got)
	_ = json.Unmarshal([]byte(`{"resources": {
		"plan": {"limit": 100, "used": 30, "remaining": 70, "reset": 1795453200, "limits": [
			{"limit": 10000, "per": "month", "used": 30, "remaining": 9970, "reset": 1796083200},
			{"limit": 100, "per": "1h", "used": 30, "remaining": 70, "reset": 1795453200}]},
		"uploads": {"limit": 2, "used": 0, "remaining": 2, "reset": 1795451400, "limits": [
			{"limit": 2, "per": "at once", "used": 0, "remaining": 2, "reset": 1795451400}]}}}`), &want)
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	expect.True(t, string(a) == string(b), "got  %s\nwant %s", a, b)
}

func TestUsageShowsBansAndGrants(t *testing.T) {
	l := core.Must(core.New(usageRules(core.FailLocal)))
	h := stdlib.NewUsage(l)
	must.Do(t, l.Grant(t.Context(), "plan", "header:x-user:ann", 2000))
	expect.Contains(t, askUsage(h, "ann").Body.String(), `{"limit":12000,"used":0,"remaining":12000`, "after a grant")
	must.Do(t, l.Ban(t.Context(), "plan", "header:x-user:ann", time.Hour))
	if body := askUsage(h, "ann").Body.String(); !strings.Contains(body, `{"plan":{"limit":12000,"used":12000,"remaining":0`) && !strings.Contains(body, `{"plan":{"limit":2100,"used":2100,"remaining":0`) {
		t.Errorf("during a ban: got %s", body)
	}
}

// A grant raises the limit. It changes neither the used requests nor the end of the window.
func TestUsageAfterAGrant(t *testing.T) {
	now := time.Date(2026, 11, 23, 16, 30, 0, 0, time.UTC)
	for _, row := range []struct {
		limit     core.Limit
		grants    []int
		all, left int
		reset     time.Time
	}{
		{core.PerMonth(10), []int{8}, 18, 14, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
		{core.PerMonth(10), []int{8, 3, -2}, 19, 15, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
		{core.PerMonth(10), []int{-3}, 7, 3, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
		{core.PerMonth(10), []int{-8}, 4, 0, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}, // at least the used requests
		{core.PerDay(10).Using(core.FixedWindow), []int{8}, 18, 14, time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)},
		{core.PerDay(10).Using(core.SlidingLog), []int{8}, 18, 14, now.Add(24 * time.Hour)},
		{core.PerDay(10).Using(core.SlidingWindow), []int{8}, 18, 14, time.Date(2026, 11, 24, 16, 48, 0, 0, time.UTC)},
		{core.PerDay(10), []int{3}, 10, 9, now.Add(144 * time.Minute)}, // a bucket refills what was used
	} {
		l := core.Must(core.New([]core.Rule{{Name: "plan", Key: keyfunc.Header("X-User"), Limits: []core.Limit{row.limit}}}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
		must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: "header:x-user:ann", Cost: 4}))(t)
		for _, n := range row.grants {
			must.Do(t, l.Grant(t.Context(), "plan", "header:x-user:ann", n))
		}
		want := fmt.Sprintf(`{"limit":%d,"used":%d,"remaining":%d,"reset":%d,`, row.all, row.all-row.left, row.left, row.reset.Unix())
		expect.Contains(t, askUsage(stdlib.NewUsage(l), "ann").Body.String(), want, "%v after grants of %v", row.limit, row.grants)
	}
}

func TestUsageShowsHolds(t *testing.T) {
	l := core.Must(core.New(usageRules(core.FailLocal)))
	h := stdlib.NewUsage(l)
	d := must.Get(l.Take(t.Context(), core.Claim{Rule: "uploads", Key: "header:x-user:ann", Hold: true}))(t)
	expect.Contains(t, askUsage(h, "ann").Body.String(), `"limits":[{"limit":2,"used":1,"remaining":1,`, "during an upload")
	must.Do(t, l.Refund(t.Context(), d))
	expect.Contains(t, askUsage(h, "ann").Body.String(), `"limits":[{"limit":2,"used":0,"remaining":2,`, "after it")
}

// Whatever other keys do, and however many limits a plan has, customers see only their own plan, and no key.
func TestUsageSaysNothingAboutOtherKeys(t *testing.T) {
	now := time.Date(2026, 11, 23, 16, 30, 0, 0, time.UTC)
	l := core.Must(core.New(usageRules(core.FailLocal), core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
	h := stdlib.NewUsage(l)
	before := askUsage(h, "ann").Body.String()
	for _, c := range []core.Claim{{Rule: "plan", Key: "header:x-user:bob", Cost: 70}, {Rule: "uploads", Key: "header:x-user:bob", Hold: true}} {
		must.Get(l.Take(t.Context(), c))(t)
	}
	must.Do(t, errors.Join(l.Grant(t.Context(), "plan", "header:x-user:bob", 500), l.Ban(t.Context(), "uploads", "header:x-user:bob", time.Hour)))
	if after := askUsage(h, "ann").Body.String(); after != before || strings.Contains(after, "ann") || strings.Contains(after, "bob") || strings.Contains(after, "trial") {
		t.Errorf("got\n%s before bob's requests and\n%s after them", before, after)
	}
}

func TestUsageNamesUnits(t *testing.T) {
	limits := []core.Limit{
		core.PerDay(9).In("UTC"), core.PerWeek(9), core.PerMonth(9).From(15), core.PerYear(9), core.Every(9, 15*time.Minute), core.PerHour(9), core.PerDay(9), core.AtOnce(9),
	}
	l := core.Must(core.New([]core.Rule{{Name: "plan", Key: keyfunc.Header("X-User"), Limits: limits}}))
	var usage struct {
		Resources map[string]struct{ Limits []struct{ Per string } }
	}
	must.Do(t, json.Unmarshal(askUsage(stdlib.NewUsage(l), "ann").Body.Bytes(), &usage))
	var got []string
	for _, limit := range usage.Resources["plan"].Limits {
		got = append(got, limit.Per)
	}
	expect.Equal(t, strings.Join(got, " "), "day week month year 15m 1h 1d at once", "%v", got)
}

// The reset of a used-up bucket is when one more request fits. Otherwise it is when the bucket is full, which is now if nothing is used.
func TestUsageOfABucket(t *testing.T) {
	now := time.Unix(1_800_000_000, 1000).UTC()
	l := core.Must(core.New([]core.Rule{{Name: "plan", Key: keyfunc.Header("X-User"), Limits: []core.Limit{core.PerHour(60)}}}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
	for _, row := range []struct {
		cost int
		want string
	}{{0, `"remaining":60,"reset":1800000000,`}, {30, `"remaining":30,"reset":1800001801,`}, {30, `"remaining":0,"reset":1800000061,`}} {
		must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: "header:x-user:ann", Cost: row.cost, Peek: row.cost == 0}))(t)
		expect.Contains(t, askUsage(stdlib.NewUsage(l), "ann").Body.String(), row.want, "result")
	}
}

// Windows and grants that have ended show as unused.
func TestUsageAfterTheTurnOfAMonth(t *testing.T) {
	now := time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC)
	l := core.Must(core.New([]core.Rule{{Name: "plan", Key: keyfunc.Header("X-User"), Limits: []core.Limit{core.PerMonth(10)}}}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
	h := stdlib.NewUsage(l)
	must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: "header:x-user:ann", Cost: 10}))(t)
	must.Do(t, l.Grant(t.Context(), "plan", "header:x-user:ann", 5))
	for _, want := range []string{`{"limit":15,"used":10,"remaining":5,"reset":1796083200,`, `{"limit":10,"used":0,"remaining":10,"reset":1796083200,`} {
		expect.Contains(t, askUsage(h, "ann").Body.String(), want, "at %v", now)
		now = now.Add(time.Second)
	}
}

func TestUsageWithoutAKeyOrAStore(t *testing.T) {
	for _, mode := range []core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed} {
		store := new(counted)
		h := stdlib.NewUsage(core.Must(core.New(usageRules(mode), core.WithStore(store))))
		if w := askUsage(h, ""); w.Code != 401 || w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("without a key: got %d, %v", w.Code, w.Header())
		}
		r := httptest.NewRequest("GET", "/usage", nil)
		r.Header["X-User"] = []string{"ann", "bob"}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		expect.Equal(t, w.Code, 400, "with two keys")
		store.down = true
		if w := askUsage(h, "ann"); w.Code != 503 || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "connection lost") {
			t.Errorf("mode %v, without the store: got %d, %v, %s", mode, w.Code, w.Header(), w.Body)
		}
	}
}

// TestUsageOfNamedRules checks that clients see only the named rules, and that no other rule is asked for a key or causes an error.
func TestUsageOfNamedRules(t *testing.T) {
	var log strings.Builder
	user := keyfunc.Header("X-User")
	rules := []core.Rule{
		{Name: "plan", Key: user, Limits: []core.Limit{core.PerMonth(1000)}},
		{Name: "burst", Key: user, Limits: []core.Limit{core.PerSecond(10)}},
		{Name: "login", Key: keyfunc.RemoteIP, Limits: core.MustParseLimits("5/10m;ban=1h"), CostAfter: core.Failures},
		{Name: "broken", Key: func(*http.Request) (string, error) { return "", errors.New("the key func does not like GET") }, Limits: []core.Limit{core.PerHour(9)}},
	}
	l := core.Must(core.New(rules, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
	for _, tt := range []struct {
		rules []string
		user  string
		code  int
		want  []string
	}{
		{[]string{"plan"}, "ann", 200, []string{"plan"}},
		{[]string{"burst", "plan", "plan"}, "ann", 200, []string{"burst", "plan"}},
		{[]string{"plan", "burst"}, "", 401, nil},
		{[]string{"plan", "login"}, "", 200, []string{"login"}},
		{nil, "ann", 500, nil}, // the broken one
		{[]string{"plan", "plans"}, "ann", 500, nil},
	} {
		log.Reset()
		w := askUsage(stdlib.NewUsage(l, tt.rules...), tt.user)
		var body struct {
			Resources map[string]struct{ Limits []any }
		}
		err := json.Unmarshal(w.Body.Bytes(), &body)
		expect.True(t, err == nil && w.Code == tt.code, "%q for %q: got %d, %s", tt.rules, tt.user, w.Code, w.Body)
		expect.Elements(t, slices.Sorted(maps.Keys(body.Resources)), tt.want, "%q for %q", tt.rules, tt.user)
		for name, resource := range body.Resources {
			expect.Equal(t, len(resource.Limits), 1, "%s has limits", name)
		}
		expect.True(t, !slices.Contains(tt.rules, "plans") || strings.Contains(log.String(), "there is no rule"),
			"%q: the log is %q", tt.rules, log.String())
		expect.True(t, !strings.Contains(w.Body.String(), "plans") && !strings.Contains(w.Body.String(), "like"),
			"%q: the response tells %s", tt.rules, w.Body)
	}
}

func ExampleNewUsage() {
	user := keyfunc.Header("X-User") // use a key that your authentication has verified
	limiter := core.Must(core.New([]core.Rule{{Name: "plan", Key: user, Limits: []core.Limit{core.PerMonth(10_000).In("Europe/Berlin").From(15)}}}))
	orders := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })

	mux := http.NewServeMux()
	mux.Handle("POST /orders", stdlib.New(limiter)(orders))
	mux.Handle("GET /usage", stdlib.NewUsage(limiter, "plan")) // asking costs nothing
	_ = mux
	// Output:
}
