package client

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// A sighting is a response with the state of a window: sent and received are on the clock of the account, at and reset in seconds.
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

// TestUnknownRoutesWaitAfterADeniedTrial sends a request of an unknown route although its assumed budgets are closed, and
// checks after which responses further unknown routes wait for those budgets.
func TestUnknownRoutesWaitAfterADeniedTrial(t *testing.T) {
	assumed, closed, other := budgetName{name: "assumed"}, budgetName{name: "closed"}, budgetName{name: "other"}
	for _, row := range []struct {
		why  string
		rep  report
		want bool
	}{
		{"denied by one of the assumed budgets", report{status: 429, denied: true, n: 1, states: [maxStates]state{{name: assumed}}}, true},
		{"denied by none that is named", report{status: 429, denied: true}, true},
		{"denied by another budget", report{status: 429, denied: true, n: 1, states: [maxStates]state{{name: other}}}, false},
		{"denied by both", report{status: 429, denied: true, n: 2, states: [maxStates]state{{name: assumed}, {name: other}}}, false},
		{"served, with the assumed budget", report{status: 200, n: 1, states: [maxStates]state{{name: assumed}}}, false},
		{"served, without a budget", report{status: 200}, false},
		{"failed", report{}, false},
	} {
		for _, before := range []bool{false, true} {
			a := &account{strict: before, clock: 1}
			a.last = []*budget{a.find(assumed), a.find(closed)}
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
	a.settle(&call{sent: 1, route: &route{}}, &rep, at(0))
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
		{`"a";q=5, "a";q=9;w=9`, 5, 0, false},
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
	expect.True(t, rep.n == 3 && rep.states[0].left == 12 && rep.states[1].left == 3 && rep.states[2].limit == 100 && rep.states[2].left == 50,
		"%+v", rep.states[:rep.n])
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

func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

// TestNewCallsDoNotOvertakeWaitingCalls checks that a call that arrives when a budget has just opened goes after the calls that already wait.
func TestNewCallsDoNotOvertakeWaitingCalls(t *testing.T) {
	a := &account{clock: 1}
	rt := &route{seen: true}
	b := a.find(budgetName{name: "api"})
	rt.budgets = []*budget{b}
	first := &call{route: rt, ticket: 1, limit: at(100), place: place{wake: make(chan struct{}, 1)}}
	second := &call{route: rt, ticket: 2, limit: at(100)}
	b.close(at(0), 10*time.Second, 200, 1)
	in, _ := a.admit(first, at(0))
	must.Equal(t, in, b, "a closed budget lets a call through")
	b.add(first)
	in, _ = a.admit(second, at(20))
	expect.True(t, in == b && b.out == 0, "the second call overtakes the first")
	a.dispatch(b, at(20))
	expect.True(t, first.admitted && b.out == 1, "the first call does not go")
}

// TestOverdueRequestsAreNotCountedTwice checks that overdue requests do not count again when their responses arrive.
func TestOverdueRequestsAreNotCountedTwice(t *testing.T) {
	b := &budget{counted: true}
	b.low.add(2, 0, 1)
	calls := []*call{{sent: 2}, {sent: 3}, {sent: 4}, {sent: 5}}
	b.enter(calls[0], at(0))
	b.enter(calls[1], at(0))
	p := b.check(calls[2], at(9))
	must.True(t, p.wait && p.until.Equal(at(10)), "%+v, want to wait until the others are overdue", p)
	p = b.check(calls[2], at(10))
	must.True(t, !p.wait, "%+v, want to go", p)
	b.enter(calls[2], at(10))
	b.enter(calls[3], at(10))
	b.leave(calls[0], at(11))
	b.leave(calls[1], at(11))
	expect.True(t, b.inFlight == 2 && b.free() == 0, "%d in flight, %d free, want 2 and 0", b.inFlight, b.free())
	b.leave(calls[2], at(12))
	b.leave(calls[3], at(12))
	expect.Equal(t, b.inFlight, 0, "in flight")
}

// TestRetryAfterIsNotShortenedByLaterResponses checks that a response with an earlier instant does not open a limit
// that another response has closed.
func TestRetryAfterIsNotShortenedByLaterResponses(t *testing.T) {
	b := &budget{}
	b.close(at(0), 20*time.Second, 429, 1)
	until := b.until
	b.close(at(1), 5*time.Second, 200, 2)
	expect.True(t, b.promise.Equal(at(20)) && b.until.Equal(until), "closed until %v, want %v", b.promise.Unix(), 20)
	b.close(at(1), 50*time.Second, 200, 2)
	expect.True(t, b.promise.Equal(at(51)), "closed until %v, want %v", b.promise.Unix(), 51)
}

// TestTrial checks how many requests a trial sends at once.
func TestTrial(t *testing.T) {
	clock := uint64(1)
	b := &budget{}
	most := func() (n int64) {
		var out []*call
		for {
			clock++
			c := &call{sent: clock}
			if b.check(c, at(1000)).wait || n == 10 {
				break
			}
			b.enter(c, at(1000))
			out = append(out, c)
			n++
		}
		for _, c := range out {
			b.leave(c, at(1000))
			b.open(c)
		}
		return n
	}
	b.close(at(0), time.Second, 200, 1)
	n := most()
	expect.True(t, n == 1 && !b.trying, "%d at once, want 1, which ends the trial", n)
	clock++
	b.close(at(0), time.Second, 429, clock)
	b.width = 1
	for want := range int64(6) {
		expect.Equal(t, most(), want+1, "at once (one more after each round)")
	}
	b.width = maxWidth
	for range maxWidth / 10 * 2 {
		most()
	}
	expect.True(t, !b.trying, "the trial does not end")
}

// TestOverdueTrial checks that another trial follows every ten seconds if a trial gets no response, and that its late
// response does not make room for two.
func TestOverdueTrial(t *testing.T) {
	b := &budget{}
	b.close(at(0), time.Second, 429, 1)
	b.width = 1
	first, second, third := &call{sent: 2}, &call{sent: 3}, &call{sent: 4}
	b.enter(first, at(10))
	p := b.check(second, at(19))
	expect.True(t, p.wait && p.until.Equal(at(20)), "%+v, want to wait for ten seconds", p)
	p = b.check(second, at(20))
	expect.True(t, !p.wait, "%+v, want to go", p)
	b.enter(second, at(20))
	b.leave(first, at(21))
	p = b.check(third, at(21))
	expect.True(t, p.wait, "a third call is sent while the second one is the trial")
	b.leave(second, at(22))
	p = b.check(third, at(22))
	expect.True(t, !p.wait, "%+v, want the third to go once the second is answered", p)
}

// TestUnansweredTrialDelaysNoLaterTrial checks that a trial without a response does not delay the trials after the next one.
func TestUnansweredTrialDelaysNoLaterTrial(t *testing.T) {
	b := &budget{}
	b.close(at(0), time.Second, 429, 1)
	b.width = 1
	second := &call{sent: 3}
	b.enter(&call{sent: 2}, at(10))
	b.enter(second, at(20))
	b.leave(second, at(21))
	p := b.check(&call{sent: 4}, at(21))
	expect.True(t, !p.wait, "%+v, want to go: the second is answered, and the first is overdue", p)
}

// TestRetryAfterWithSeveralLimits checks which instant counts if a denial reports several limits as used up: Retry-After is for
// the one that takes longest, and no limit takes longer.
func TestRetryAfterWithSeveralLimits(t *testing.T) {
	a, c := &account{clock: 6}, &call{sent: 5, route: &route{}}
	rep := report{status: 429, denied: true, hasRetry: true, retry: 30 * time.Second, n: 4}
	for i, wait := range []time.Duration{time.Second, 100 * time.Second, 90 * time.Second, 0} {
		rep.states[i] = state{name: budgetName{line: int8(i)}, wait: wait, hasReset: wait > 0}
	}
	a.denied(c, &rep, a.match(c, &rep), at(0))
	for i, want := range []int{1, 30, 30, 30} {
		b := a.budgets[i]
		expect.True(t, b.promise.Equal(at(want)), "limit %d is closed until %v, want %v", i, b.promise.Unix(), want)
	}
	a = &account{clock: 6}
	rep.n = 3
	rep.states[0] = state{wait: 20 * time.Second, hasReset: true}
	rep.states[1] = state{name: budgetName{line: 1}, wait: time.Second, hasReset: true}
	rep.states[2] = state{name: budgetName{line: 2}, wait: 200 * time.Second, hasReset: true, left: 5}
	a.denied(c, &rep, a.match(c, &rep), at(0))
	if a, b := a.budgets[0], a.budgets[1]; !a.promise.Equal(at(30)) || !b.promise.Equal(at(1)) {
		t.Errorf("closed until %v and %v, want 30 (the longest used-up limit) and 1", a.promise.Unix(), b.promise.Unix())
	}
	a = &account{clock: 6}
	rep.n, rep.states[0] = 1, state{wait: time.Second, hasReset: true}
	a.denied(c, &rep, a.match(c, &rep), at(0))
	b := a.budgets[0]
	expect.True(t, b.promise.Equal(at(30)), "the only limit is closed until %v, want 30", b.promise.Unix())
}

// TestOnlyPacedWindowsAnnounceAnInstant checks that a call expects an instant while a window is paced, but not once the window
// proves to be a bucket: otherwise a call that waits for a response would fail because of an irrelevant instant.
func TestOnlyPacedWindowsAnnounceAnInstant(t *testing.T) {
	b := &budget{counted: true, limit: 100, window: window{kind: fixed, last: at(10), renewed: at(110)}}
	b.low.add(9, 0, 1)
	c := &call{place: place{turn: 1}}
	known := b.expect(c, at(10))
	expect.True(t, known.Equal(at(20)), "%v, want the first of ten intervals", known.Unix())
	b.kind = moving
	known = b.expect(c, at(10))
	expect.True(t, known.IsZero(), "%v, want none for a bucket", known.Unix())
}

// TestLateResponseFromTheOldWindow has two requests in flight while a window ends. The response to the first request
// is from the new window. The second request, sent just before that response arrives, gets a response from the old window. The
// client must not conclude that the window's Reset moves back.
func TestLateResponseFromTheOldWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr Transport
		begun := time.Now()
		send := func() *exchange {
			r := must.Get(http.NewRequest(http.MethodGet, "http://api.example/", nil))(t)
			e := &exchange{req: r, key: tr.keyOf(r)}
			must.Do(t, tr.wait(e))
			return e
		}
		answer := func(e *exchange, at, reset time.Duration, left string) {
			tr.settle(e, &http.Response{StatusCode: 200, Header: http.Header{
				"Date": {begun.Add(at).UTC().Format(http.TimeFormat)}, "X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {left},
				"X-Ratelimit-Reset": {strconv.FormatInt(begun.Add(reset).Unix(), 10)},
			}})
		}
		answer(send(), 0, time.Minute, "90")
		first, second := send(), send()
		answer(first, time.Minute, 2*time.Minute, "99")
		answer(second, 58*time.Second, time.Minute, "88")
		b := first.account.budgets[0]
		if want := begun.Add(2 * time.Minute).Unix(); b.kind == moving || b.reset != want {
			t.Errorf("kind %v, reset %d; want a window that is renewed at %d", b.kind, b.reset, want)
		}
	})
}
