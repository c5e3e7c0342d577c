package client

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// at returns an instant.
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
