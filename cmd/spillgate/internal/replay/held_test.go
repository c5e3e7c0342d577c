package replay

import (
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
)

func TestStatusSettlesFailures(t *testing.T) {
	var log entries
	for i := range 20 {
		e := sent(time.Duration(i), "x", "/login")
		if e.Status = 200; i >= 10 {
			e.Status = 401
		}
		log = append(log, e)
	}
	src := "rules: [{name: login, key: ip, limits: 5/h, cost_after: failures}]"
	if rep := run(t, src, Options{}, slices.Clone(log)); rep.Denied != 5 || rep.Failed != 0 {
		t.Errorf("got %+v, want 10 free successes, 5 failures and 5 denials", rep)
	}
	none := func(string) bool { return false }
	if rep := run(t, src, Options{Knows: none}, slices.Clone(log)); rep.LeftOut["login"] != Statuses {
		t.Errorf("without statuses: got %+v", rep)
	}
	if rep := run(t, src, Options{SkipStatus: map[int]bool{401: true}}, log); rep.Denied != 0 || rep.Skipped != 10 || rep.Requests != 10 {
		t.Errorf("without those answered 401: got %+v", rep)
	}
}

// A request is decided when it starts and held until it ends. After that, it counts if it failed.
func TestRequestsInFlightAreHeld(t *testing.T) {
	request := func(path string, start, took time.Duration, status int) accesslog.Entry {
		e := sent(start, "x", path)
		e.Started, e.Duration, e.Status = true, took, status
		return e
	}
	tests := []struct {
		why    string
		log    entries // by end
		denied int     // of /b
	}{
		{"a request in flight is held", entries{request("/b", 5*time.Second, time.Second, 200), request("/a", 0, 10*time.Second, 200)}, 1},
		{"a success is free once it has ended", entries{request("/a", 0, 10*time.Second, 200), request("/b", 10*time.Second, time.Second, 200)}, 0},
		{"a long request is held until its end", entries{request("/b", 4*time.Minute, time.Second, 200), request("/a", 0, 5*time.Minute, 200)}, 1},
		{"a failure is not", entries{request("/a", 0, 10*time.Second, 401), request("/b", 10*time.Second, time.Second, 200)}, 1},
		{"a request without a response is not free", entries{request("/a", 0, 10*time.Second, 0), request("/b", 10*time.Second, time.Second, 200)}, 1},
	}
	for _, tt := range tests {
		rep := run(t, "rules: [{key: ip, limits: 1/d, cost_after: failures}]", Options{AtStart: true}, tt.log)
		if rep.Denied != tt.denied || tt.denied > 0 && rep.Routes[0].Route != "GET /b" || rep.Failed != 0 {
			t.Errorf("%s: denied %v, want %d of /b; %s", tt.why, rep.Routes, tt.denied, rep.Error)
		}
	}
}

func TestLimitsOfRequestsInFlight(t *testing.T) {
	const src = "rules: [{key: ip, limits: 1 at once}]"
	e := sent(5*time.Second, "x", "/")
	e.Duration = 5 * time.Second
	log := entries{e, e, sent(7*time.Second, "x", "/")}
	log[2].Duration = time.Second
	all := func(string) bool { return true }
	if rep := run(t, src, Options{AtStart: true, Knows: all}, slices.Clone(log)); rep.Denied != 1 || rep.Failed != 0 {
		t.Errorf("got %+v, want one of the two overlapping requests denied", rep)
	}
	if rep := run(t, src, Options{}, log); rep.LeftOut["default"] != Durations {
		t.Errorf("without durations: got %+v", rep)
	}
}
