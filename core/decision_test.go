package core_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestTightest(t *testing.T) {
	left := func(rule string, remaining, capacity int) core.Result {
		return core.Result{Rule: rule, Allowed: true, Remaining: remaining, Limit: core.PerHour(capacity)}
	}
	denied := func(rule string, retry time.Duration) core.Result {
		return core.Result{Rule: rule, RetryAfter: retry, Limit: core.PerHour(10)}
	}
	recovers := func(r core.Result, refill, reset time.Duration) core.Result {
		r.RefillAfter, r.ResetAfter = refill, reset
		return r
	}
	dry := func(r core.Result) core.Result {
		r.DryRun = true
		return r
	}
	tests := []struct {
		why     string
		results []core.Result
		want    string // the rule; empty: none
	}{
		{"no results", nil, ""},
		{"a dry run enforces nothing", []core.Result{dry(denied("a", core.Never))}, ""},
		{"the least share remaining, not the least number", []core.Result{left("a", 5, 10), left("b", 90, 1000), left("c", 3, 4)}, "b"},
		{"ties go to the first", []core.Result{left("a", 5, 10), left("b", 50, 100)}, "a"},
		{"of equal shares, the longer recovery", []core.Result{recovers(left("a", 5, 10), 9, 1), recovers(left("b", 50, 100), 2, 3), recovers(left("c", 1, 2), 1, 2)}, "b"},
		{"of two that are used up, the one without a request for longer", []core.Result{recovers(left("a", 0, 10), 2, 9), recovers(left("b", 0, 100), 3, 4), recovers(left("c", 0, 2), 1, 99)}, "b"},
		{"the share before the recovery", []core.Result{recovers(left("a", 6, 10), 9, 9), recovers(left("b", 5, 10), 1, 1)}, "b"},
		{"a denied one before an allowed one", []core.Result{left("a", 0, 10), denied("b", 1)}, "b"},
		{"in either order", []core.Result{denied("b", 1), left("a", 0, 10)}, "b"},
		{"the longest wait", []core.Result{denied("a", 1), denied("b", 3), denied("c", 2)}, "b"},
		{"Never is longer than any", []core.Result{denied("a", time.Hour), denied("b", core.Never), denied("c", 2*time.Hour)}, "b"},
		{"the first Never", []core.Result{denied("a", core.Never), denied("b", core.Never)}, "a"},
		{"a dry run is passed over", []core.Result{dry(denied("a", core.Never)), left("b", 5, 5), dry(left("c", 0, 5))}, "b"},
		{"the largest numbers do not overflow", []core.Result{left("a", 999_999_999, 1_000_000_000), left("b", 999_999_998, 1_000_000_000)}, "b"},
		{"the burst is the capacity", []core.Result{left("a", 5, 20), {Rule: "b", Allowed: true, Remaining: 5, Limit: core.PerHour(20).WithBurst(40)}}, "b"},
	}
	for _, tt := range tests {
		got, ok := core.Decision{Results: tt.results}.Tightest()
		if ok != (tt.want != "") || got.Rule != tt.want {
			t.Errorf("%s: got rule %q, %v; want %q", tt.why, got.Rule, ok, tt.want)
		}
	}
}

func TestPreflight(t *testing.T) {
	tests := []struct {
		why, method, origin, request string
		want                         bool
	}{
		{"a preflight", "OPTIONS", "https://example.com", "PUT", true},
		{"an opaque origin", "OPTIONS", "null", "PUT", true},
		{"only OPTIONS asks", "GET", "https://example.com", "PUT", false},
		{"methods are case-sensitive", "options", "https://example.com", "PUT", false},
		{"a browser names its origin", "OPTIONS", "", "PUT", false},
		{"and what it is about to do", "OPTIONS", "https://example.com", "", false},
		{"a plain OPTIONS", "OPTIONS", "", "", false},
	}
	for _, tt := range tests {
		r := &http.Request{Method: tt.method, Header: http.Header{}}
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if tt.request != "" {
			r.Header.Set("Access-Control-Request-Method", tt.request)
		}
		if got := core.Preflight(r); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.why, got, tt.want)
		}
	}
	if core.Preflight(&http.Request{Method: "OPTIONS"}) {
		t.Error("a request without headers is a preflight")
	}
}
