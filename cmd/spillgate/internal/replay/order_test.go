package replay

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestLogsAreMergedByTime(t *testing.T) {
	const one = "rules: [{key: const(x), limits: 1/1h}]"
	rep := run(t, "rules: [{key: 'join(ip, const(x))', limits: 0/s}]", Options{},
		entries{sent(3, "c", "/"), sent(5, "e", "/")}, entries{sent(1, "a", "/"), sent(4, "d", "/")}, nil, entries{sent(2, "b", "/")})
	if rep.Requests != 5 || rep.Timeline.From != noon {
		t.Errorf("got %+v", rep)
	}
	for first, logs := range map[string][]entries{
		"the earliest": {{sent(2, "x", "/late")}, {sent(1, "x", "/early")}},
		"of one instant, in the order of the logs":  {{sent(1, "x", "/early")}, {sent(1, "x", "/late")}},
		"of one instant, in the order of the lines": {{sent(1, "x", "/early"), sent(1, "x", "/late")}},
	} {
		if rep := run(t, one, Options{}, logs...); len(rep.Routes) != 1 || rep.Routes[0].Route != "GET /late" {
			t.Errorf("%s: denied %v, want GET /late", first, rep.Routes)
		}
	}
}

func TestRequestsAreDecidedAtTheirStartOrEnd(t *testing.T) {
	long := sent(30*time.Second, "x", "/long")
	long.Duration = 29 * time.Second
	started := sent(2*time.Second, "x", "/started")
	started.Duration, started.Started = 40*time.Second, true
	log := entries{sent(20*time.Second, "x", "/short"), long, started}
	for at, want := range map[bool][]string{false: {"GET /long 1", "GET /started 1"}, true: {"GET /short 1", "GET /started 1"}} {
		rep := run(t, "rules: [{key: const(x), limits: 1/h}]", Options{AtStart: at}, slices.Clone(log))
		var got []string
		for _, r := range rep.Routes {
			got = append(got, fmt.Sprint(r.Route, " ", r.Denied))
		}
		if !slices.Equal(got, want) {
			t.Errorf("at start %v: denied %q, want %q", at, got, want)
		}
	}
}
