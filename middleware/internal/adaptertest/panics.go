package adaptertest

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

// A fuse makes a callback panic once, when it is armed.
type fuse struct{ armed atomic.Bool }

func (f *fuse) trip() {
	if f.armed.CompareAndSwap(true, false) {
		panic("tripped")
	}
}

// rule is a rule of 3 per hour; change puts f into it.
func (f *fuse) rule(change func(*core.Rule)) []core.Rule {
	r := core.PerHour(3).Using(core.SlidingLog).By(anyone)
	change(&r)
	return []core.Rule{r}
}

func (f *fuse) key(r *http.Request) (string, error) { f.trip(); return anyone(r) }
func (f *fuse) match(*http.Request) bool            { f.trip(); return true }
func (f *fuse) cost(*http.Request) int              { f.trip(); return 1 }
func (f *fuse) tier(*http.Request) []core.Limit     { f.trip(); return nil }
func (f *fuse) skip(*http.Request) bool             { f.trip(); return false }

func (f *fuse) observe(context.Context, *core.Observation) { f.trip() }

func (f *fuse) headers(http.Header, core.Decision) { f.trip() }

func (f *fuse) deny(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
	f.trip()
	w.WriteHeader(http.StatusTooManyRequests)
}

func (f *fuse) fail(w http.ResponseWriter, _ *http.Request, _ error) {
	f.trip()
	w.WriteHeader(http.StatusBadRequest)
}

// testPanics checks that a callback that panics once affects its request alone: afterwards exactly what remains is admitted, and no lock
// stays held.
func testPanics(t *testing.T, a Adapter) {
	f := new(fuse)
	plain := f.rule(func(*core.Rule) {})
	none := []core.Rule{core.PerHour(0).By(anyone)}
	noKey := f.rule(func(r *core.Rule) { r.Key = func(*http.Request) (string, error) { return "", core.ErrNoKey } })
	for _, row := range []struct {
		why      string
		rules    []core.Rule
		opts     []core.Option
		guard    Guard
		status   int // of the request in which the callback panics; 0: the connection ends without a response
		admitted int // requests after it
		last     int // the status of the next request
	}{
		{"key", f.rule(func(r *core.Rule) { r.Key = f.key }), nil, Guard{}, 500, 3, 429},
		{"match", f.rule(func(r *core.Rule) { r.Match = f.match }), nil, Guard{}, 500, 3, 429},
		{"cost", f.rule(func(r *core.Rule) { r.Cost = f.cost }), nil, Guard{}, 500, 3, 429},
		{"tier", f.rule(func(r *core.Rule) { r.Tier = f.tier }), nil, Guard{}, 500, 3, 429},
		{"skip", plain, []core.Option{core.WithSkip(f.skip)}, Guard{}, 500, 3, 429},
		{"observer", plain, []core.Option{core.WithObserver(f.observe)}, Guard{}, 200, 2, 429},
		{"headers", plain, nil, Guard{Headers: f.headers}, 0, 2, 429},
		{"deny handler", none, nil, Guard{Deny: f.deny}, 0, 0, 429},
		{"error handler", noKey, nil, Guard{Fail: f.fail}, 0, 0, 400},
	} {
		t.Run(row.why, func(t *testing.T) {
			row.guard.Limiter = core.Must(core.New(row.rules, append(row.opts, core.WithLogger(slog.New(slog.DiscardHandler)))...))
			s := a.serve(t, single(row.guard))
			s.Client().Transport.(*http.Transport).DisableKeepAlives = true
			f.armed.Store(true)
			status := 0
			if resp, err := s.Client().Get(s.URL); err == nil {
				status = resp.StatusCode
				_ = resp.Body.Close()
			}
			expect.True(t, !f.armed.Load() && status == row.status, "tripped: %v; status %d, want %d", !f.armed.Load(), status, row.status)
			for range row.admitted {
				s.get("/").wantStatus(t, http.StatusOK)
			}
			s.get("/").wantStatus(t, row.last)
		})
	}
}

// at returns a limiter like scripted, on another clock, so that the test notices a mixture of two decisions.
func at(clock time.Time, t core.Result) *core.Limiter {
	return newLimiter(&script{at: clock, results: []core.Result{t}}, rulesOf([]core.Result{t})...)
}

var (
	later = noon.Add(time.Hour)
	tight = allowed("route", core.PerSecond(10), 1, 100*time.Millisecond, 900*time.Millisecond)
)

// limiterPairs are the decisions of an application's limiter and of a route's limiter, and the joint result.
var limiterPairs = []struct {
	why         string
	app, route  *core.Limiter
	status      int
	want        []string
	bothDecided bool
}{
	{"the route's is tighter", at(noon, half), at(later, tight), 200, gitHub("10", "1", "9", "1767272401", "route"), true},
	{"the application's is tighter", at(noon, half), at(later, allowed("route", perHour, 999, time.Second, time.Second)), 200, halfSet, true},
	{"the route's denies", at(noon, half), at(later, denied(tight, time.Second)), 429, and(gitHub("10", "0", "10", "1767272401", "route"), "Retry-After: 1"), true},
	{"the route's denies, and the application's is used up meanwhile: the longest wait", at(noon, allowed("api", perMinute, 0, 30*time.Second, time.Minute)),
		at(later, denied(tight, time.Second)), 429, and(gitHub("10", "0", "10", "1767272430", "route"), "Retry-After: 30"), true},
	{"the application's denies: the route's is not asked", at(noon, empty), at(later, tight), 429, and(gitHub("100", "0", "100", "1767268801", "api"), "Retry-After: 1"), false},
}

// testTwoLimiters checks a limiter of the application together with a limiter of the route.
func testTwoLimiters(t *testing.T, a Adapter) {
	for _, row := range limiterPairs {
		t.Run(row.why, func(t *testing.T) {
			var seen core.Decision
			note := func(w http.ResponseWriter, r *http.Request, d core.Decision) {
				seen = d
				w.WriteHeader(http.StatusTooManyRequests)
			}
			got := a.serve(t, App{Guards: []Guard{{Limiter: row.app, Deny: note}}, Routes: []Route{{
				Pattern: "/", Guards: []Guard{{Limiter: row.route, Deny: note}},
				Handler: func(w http.ResponseWriter, r *http.Request) { seen, _ = core.FromContext(r.Context()) },
			}}}).get("/")
			got.wantStatus(t, row.status)
			got.wantLimiting(t, row.want...)
			both := len(seen.Results) == 2
			expect.True(t, both == row.bothDecided && seen.Allowed == (row.status == 200), "the decision is %+v", seen)
		})
	}
}

// testMountedTwice checks that one limiter charges a request once, however often it is mounted.
func testMountedTwice(t *testing.T, a Adapter) {
	g := Guard{Limiter: counting(2)}
	other := Guard{Limiter: counting(100)}
	s := a.serve(t, App{Guards: []Guard{g, other, g}, Routes: []Route{{Pattern: "/", Guards: []Guard{g}, Handler: ok}}})
	for i, want := range []int{200, 200, 429} {
		if got := s.get("/"); got.StatusCode != want || len(got.Header["X-Ratelimit-Remaining"]) != 1 {
			t.Errorf("request %d: status %d, Remaining %q, want %d", i+1, got.StatusCode, got.Header["X-Ratelimit-Remaining"], want)
		}
	}
}

// testContext checks that a handler finds the decision in the context, and can refund the request with it.
func testContext(t *testing.T, a Adapter) {
	l := counting(1)
	var before, after core.Decision
	s := a.serve(t, App{Guards: []Guard{{Limiter: l}}, Routes: []Route{
		{Pattern: "/", Handler: func(w http.ResponseWriter, r *http.Request) {
			before, _ = core.FromContext(r.Context())
			after, _ = l.Check(r)
			expect.NoError(t, l.Refund(r.Context(), before), "Refund")
		}},
	}})
	for range 3 {
		s.get("/").wantStatus(t, 200)
	}
	expect.True(t, len(before.Results) == 1 && before.Allowed && before.Results[0].Remaining == 0, "the handler found %+v", before)
	expect.True(t, reflect.DeepEqual(before, after), "Check in the handler says %+v, want what it was charged already: %+v", after, before)
}
