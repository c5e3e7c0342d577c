package adaptertest

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

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
			if both := len(seen.Results) == 2; both != row.bothDecided || seen.Allowed != (row.status == 200) {
				t.Errorf("the decision is %+v", seen)
			}
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
			if err := l.Refund(r.Context(), before); err != nil {
				t.Error(err)
			}
		}},
	}})
	for range 3 {
		s.get("/").wantStatus(t, 200)
	}
	if len(before.Results) != 1 || !before.Allowed || before.Results[0].Remaining != 0 {
		t.Errorf("the handler found %+v", before)
	}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("Check in the handler says %+v, want what it was charged already: %+v", after, before)
	}
}
