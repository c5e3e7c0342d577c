package client

import (
	"net/http"
	"testing"
	"time"
)

// TestResponsesThatMakeARouteKnown checks which responses make the budgets of a route known.
func TestResponsesThatMakeARouteKnown(t *testing.T) {
	for _, row := range []struct {
		name string
		rep  report
		want bool
	}{
		{"a success without fields", report{status: 200}, true},
		{"a failure without fields", report{status: 502}, false},
		{"a denial without fields", report{status: 429, denied: true}, false},
		{"a failure with fields", report{status: 502, n: 1, states: [maxStates]state{{left: 5}}}, true},
		{"a denial with fields", report{status: 429, denied: true, n: 1}, true},
	} {
		a, c := &account{clock: 1}, &call{sent: 1, route: &route{}}
		c.budgets = []*budget{&a.hold}
		a.settle(c, &row.rep, at(0))
		if c.route.seen != row.want {
			t.Errorf("%s: seen %v, want %v", row.name, c.route.seen, row.want)
		}
	}
}

// TestUnknownRoutesWaitAfterADeniedTrial sends a request of an unknown route although its assumed budget is closed, and checks
// after which responses further unknown routes wait for that budget.
func TestUnknownRoutesWaitAfterADeniedTrial(t *testing.T) {
	assumed, other := budgetName{name: "assumed"}, budgetName{name: "other"}
	for _, row := range []struct {
		why  string
		rep  report
		want bool
	}{
		{"denied by the assumed budget", report{status: 429, denied: true, n: 1, states: [maxStates]state{{name: assumed}}}, true},
		{"denied by none that is named", report{status: 429, denied: true}, true},
		{"denied by another budget", report{status: 429, denied: true, n: 1, states: [maxStates]state{{name: other}}}, false},
		{"denied by both", report{status: 429, denied: true, n: 2, states: [maxStates]state{{name: assumed}, {name: other}}}, false},
		{"served, with the assumed budget", report{status: 200, n: 1, states: [maxStates]state{{name: assumed}}}, false},
		{"served, without a budget", report{status: 200}, false},
		{"failed", report{}, false},
	} {
		for _, before := range []bool{false, true} {
			a := &account{strict: before, clock: 1}
			a.last = []*budget{a.find(assumed)}
			c := &call{sent: 1, route: &route{}, budgets: []*budget{&a.hold}}
			a.trying = c
			a.settle(c, &row.rep, at(0))
			if a.strict != row.want || a.trying != nil {
				t.Errorf("%s: strict %v, trying %v; want %v, and none", row.why, a.strict, a.trying, row.want)
			}
		}
	}
}

// TestStatesBeyondTheRoomOfAnAccount checks that states are not mixed up when a response names more than an account has room for.
func TestStatesBeyondTheRoomOfAnAccount(t *testing.T) {
	a := &account{clock: 1}
	b := a.find(budgetName{name: "known"})
	for len(a.budgets) < maxBudgets {
		a.find(budgetName{line: int8(len(a.budgets))})
	}
	for _, b := range a.budgets {
		b.inFlight = 1
	}
	rep := report{status: 200, n: 2, states: [maxStates]state{{name: budgetName{name: "new"}, left: 3}, {name: b.name, left: 7}}}
	c := &call{sent: 1, route: &route{}}
	a.settle(c, &rep, at(0))
	if b.low.least() != 7 || rep.n != 1 {
		t.Errorf("%d remain by %d states, want 7 by one", b.low.least(), rep.n)
	}
}

// TestPolicies checks which numbers of a limit come from RateLimit-Policy.
func TestPolicies(t *testing.T) {
	for _, row := range []struct {
		policy string
		limit  int64
		each   time.Duration
		other  bool
	}{
		{`"a";q=10;w=60`, 10, 6 * time.Second, false},
		{`"a";q=7;w=60`, 7, 9 * time.Second, false},
		{`"b";q=10;w=60`, 0, 0, false},
		{`"a";q=10`, 10, 0, false},
		{`"a";q=10;w=0`, 10, 0, false},
		{`"a";q=0;w=60`, 0, 0, false},
		{`"a";q=-5;w=60`, 0, 0, false},
		{`"a";q=x;w=60`, 0, 0, false},
		{`"a";w=60`, 0, 0, false},
		{`"a";q=10;qu="requests"`, 10, 0, false},
		{`"a";q=10;qu="content-bytes"`, 10, 0, true},
		{`"b";q=10;w=60;qu="content-bytes", "a";q=5`, 5, 0, false},
	} {
		var rep report
		rep.read(&http.Response{StatusCode: 200, Header: http.Header{"Ratelimit": {`"a";r=1`}, "Ratelimit-Policy": {row.policy}}}, at(0))
		if s := rep.states[0]; s.limit != row.limit || s.each != row.each || s.otherUnit != row.other {
			t.Errorf("%s: %+v", row.policy, s)
		}
	}
}

// TestOneNumberFields checks the limit of draft revision 07, and Remaining with text after the number.
func TestOneNumberFields(t *testing.T) {
	var rep report
	rep.read(&http.Response{StatusCode: 200, Header: http.Header{
		"Ratelimit": {"limit=100, remaining=50, reset=5"}, "X-Ratelimit-Remaining": {"12, 9", "3;w=60", "-", "x4"},
	}}, at(0))
	if rep.n != 3 || rep.states[0].left != 12 || rep.states[1].left != 3 || rep.states[2].limit != 100 || rep.states[2].left != 50 {
		t.Errorf("%+v", rep.states[:rep.n])
	}
}
