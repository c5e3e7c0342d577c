package client

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// A sighting is a response with the state of a window: sent and received are on the clock of the account, at and
// reset in seconds.
type sighting struct {
	sent, received uint64
	at             int
	left, reset    int64
}

// learned returns a window after these responses, each with a limit of 100.
func learned(responses ...sighting) *window {
	w := &window{}
	for _, r := range responses {
		s := state{left: r.left, hasReset: true, reset: r.reset, wait: time.Duration(r.reset-int64(r.at)) * time.Second}
		w.learn(&s, 100, at(r.at), r.sent, r.received)
	}
	return w
}

// TestWindowOrBucket checks which responses mean a window, whose Reset stays, and which a bucket, whose Reset moves.
func TestWindowOrBucket(t *testing.T) {
	for _, row := range []struct {
		name string
		want kind
		seen []sighting
	}{
		{"one response does not tell", unknown, []sighting{{1, 2, 1000, 99, 1060}}},
		{"Reset stays while Remaining falls", fixed, []sighting{{1, 2, 1000, 99, 1060}, {3, 4, 1001, 98, 1060}}},
		{"the second was sent before the first response", fixed, []sighting{{1, 3, 1000, 99, 1060}, {2, 4, 1001, 98, 1060}}},
		{"it stays within rounding", fixed, []sighting{{1, 2, 1000, 99, 1060}, {3, 4, 1001, 98, 1061}}},
		{"it moves", moving, []sighting{{1, 2, 1000, 90, 1006}, {3, 4, 1000, 80, 1012}}},
		{"it moves back, by a request that was sent later", moving, []sighting{{1, 2, 1000, 99, 1060}, {3, 4, 1000, 98, 1050}}},
		{"a bucket has not moved far enough yet", unknown, []sighting{{1, 2, 1000, 6, 1057}, {3, 4, 1000, 5, 1057}, {5, 6, 1000, 4, 1058}}},
		{"a late response of the window before", fixed, []sighting{{1, 2, 1000, 99, 1060}, {3, 4, 1001, 98, 1060}, {6, 7, 1061, 99, 1120}, {5, 8, 1058, 90, 1060}}},
		{"the next window begins within the last second", fixed, []sighting{{1, 2, 1000, 99, 1060}, {3, 4, 1001, 98, 1060}, {5, 6, 1059, 99, 1120}}},
		{"a Reset that moved once stays moving", moving, []sighting{{1, 2, 1000, 90, 1006}, {3, 4, 1000, 80, 1012}, {5, 6, 1100, 99, 1160}, {7, 8, 1100, 90, 1160}}},
	} {
		expect.Equal(t, learned(row.seen...).kind, row.want, "%s: kind", row.name)
	}
}

// TestWindowsThatAreNotPaced checks the windows whose requests are sent without pacing.
func TestWindowsThatAreNotPaced(t *testing.T) {
	year := sighting{3, 4, 1000, 15, 1000 + 365*86400}
	w := learned(sighting{1, 2, 1000, 16, year.reset}, year)
	expect.True(t, !w.renewed.After(at(1000).Add(time.Hour)), "paced until %v: more than an hour", w.renewed)
	for _, row := range []struct {
		name string
		each time.Duration
		left int64
		end  int // of the window
		kind kind
		want bool
	}{
		{"the last fifth", 0, 20, 1060, fixed, true},
		{"more than a fifth", 0, 21, 1060, fixed, false},
		{"the last fifth of a bucket", 0, 20, 1060, moving, false},
		{"a second", 0, 20, 1001, fixed, false},
		{"what one request takes to come back", 60 * time.Second, 20, 1060, fixed, false},
		{"more than what one takes", 6 * time.Second, 20, 1060, fixed, true},
	} {
		b := &budget{counted: true, limit: 100, window: window{kind: row.kind, renewed: at(row.end), each: row.each, last: at(1000)}}
		b.low.add(row.left, 1, 2)
		expect.Equal(t, b.paced(&call{}, at(1000)), row.want, "%s", row.name)
		p := b.checkInTurn(&call{}, at(1000))
		expect.True(t, p.wait == row.want, "%s: right after a request %+v, want to wait: %v", row.name, p, row.want)
	}
}

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
		expect.Equal(t, c.route.seen, row.want, "%s: seen", row.name)
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
			expect.True(t, a.strict == row.want && a.trying == nil,
				"%s: strict %v, trying %v; want %v, and none", row.why, a.strict, a.trying, row.want)
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
	expect.True(t, b.low.least() == 7 && rep.n == 1, "%d remain by %d states, want 7 by one", b.low.least(), rep.n)
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
		s := rep.states[0]
		expect.True(t, s.limit == row.limit && s.each == row.each && s.otherUnit == row.other, "%s: %+v", row.policy, s)
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

// TestLowestIsSafe sends random requests to a window and to a bucket, with responses in any order. After each step it
// checks that at least as much remains as the client assumes, and exactly as much if no request is in flight.
func TestLowestIsSafe(t *testing.T) {
	type sending struct {
		sent uint64
		left int64 // -1: not decided yet
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		left, refills := int64(60), seed%2 == 0
		var clock uint64
		var low lowest
		var out []sending
		known := false
		for range 400 {
			clock++
			switch i := random.IntN(max(len(out), 1)); random.IntN(4) {
			case 0:
				if !known && len(out) == 0 || known && low.least() > int64(len(out)) {
					out = append(out, sending{clock, -1})
				}
			case 1, 2:
				if len(out) > 0 && out[i].left < 0 {
					left--
					must.True(t, left >= 0, "seed %d: a request was sent for which nothing remained", seed)
					out[i].left = left
				}
			case 3:
				if len(out) > 0 && out[i].left >= 0 {
					low.add(out[i].left, out[i].sent, clock)
					out = append(out[:i], out[i+1:]...)
					known = true
				}
			}
			if refills && random.IntN(20) == 0 {
				left++
			}
			if known && len(out) == 0 && !refills && low.least() != left {
				t.Fatalf("seed %d: %d remain, want %d", seed, low.least(), left)
			}
		}
	}
}
