package breaker

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

var errDown = errors.New("down")

type breakerAt struct {
	Breaker
	t   *testing.T
	now time.Time
}

func newBreakerAt(t *testing.T) *breakerAt { return &breakerAt{t: t, now: time.Unix(1_800_000_000, 0)} }

// enter makes a call that the breaker must let through.
func (b *breakerAt) enter(why string) Call {
	b.t.Helper()
	c, err := b.Enter(b.now)
	must.True(b.t, err == nil, "%s: %v", why, err)
	return c
}

// call makes a call that ends with err at once, and reports whether the breaker let it through.
func (b *breakerAt) call(err error) bool {
	c, withheld := b.Enter(b.now)
	if withheld == nil {
		c.End(b.now, err)
	}
	return withheld == nil
}

func (b *breakerAt) wantWithholds(want bool, why string) {
	b.t.Helper()
	if got := b.State(b.now).Withholds; got != want {
		b.t.Fatalf("%s: withholds calls %v, want %v", why, got, want)
	}
}

func (b *breakerAt) trips() {
	b.t.Helper()
	for range tripFailures {
		b.call(errDown)
	}
	b.wantWithholds(true, "after failures")
}

// recovers makes b close once its pause is over.
func (b *breakerAt) recovers() {
	b.t.Helper()
	for b.now = b.resume; b.tripped; {
		must.True(b.t, b.call(nil), "withheld in the ramp")
	}
}

func TestTrips(t *testing.T) {
	ok, down := error(nil), errDown
	for _, tt := range []struct {
		why   string
		calls []error
		every time.Duration
		want  bool
	}{
		{"five failures", []error{down, down, down, down, down}, 0, true},
		{"four may be chance", []error{down, down, down, down}, 0, false},
		{"at least half of the calls", []error{ok, ok, ok, ok, ok, down, down, down, down, down}, 0, true},
		{"less than half", []error{ok, ok, ok, ok, ok, ok, down, down, down, down, down}, 0, false},
		{"four of five seconds apart", []error{down, down, down, down, down}, 250 * time.Millisecond, false},
		{"five within a second", []error{down, down, down, down, down}, 249 * time.Millisecond, true},
		{"twenty in a row, however many were well before", slices.Concat(make([]error, 100), slices.Repeat([]error{down}, 20)), 0, true},
		{"nineteen in a row", slices.Concat(make([]error, 100), slices.Repeat([]error{down}, 19)), 0, false},
		{"not in a row", slices.Concat(make([]error, 100), slices.Repeat([]error{down}, 19), []error{ok, down}), 0, false},
		{"a row may take longer than a window", slices.Concat(make([]error, 100), slices.Repeat([]error{down}, 20)), 260 * time.Millisecond, true},
		{"an error value is not a round trip", slices.Repeat([]error{io.EOF}, tripFailures), 0, true},
		{"one round trip of 256 callers", trips(1, 256), 0, false},
		{"four round trips of 256 callers", trips(4, 256), 0, false},
		{"five round trips of 256 callers", trips(5, 256), 0, true},
		{"five round trips whose callers wake up by turns", byTurns(trips(5, 256), 5), 0, true},
		{"half of 1,280 callers", slices.Concat(make([]error, 640), trips(5, 128)), 0, true},
		{"less than half of the callers", slices.Concat(make([]error, 641), trips(5, 128)), 0, false},
		{"nineteen round trips in a row", slices.Concat(make([]error, 2000), trips(19, 100)), 0, false},
		{"twenty round trips in a row", slices.Concat(make([]error, 2000), trips(20, 50)), 0, true},
	} {
		t.Run(tt.why, func(t *testing.T) {
			b := newBreakerAt(t)
			var calls []Call
			for i := range tt.calls { // the calls of a batch are in flight together
				if tt.every == 0 && len(tt.calls) < MaxCalls {
					calls = append(calls, b.enter(fmt.Sprint("call ", i)))
				}
			}
			for i, err := range tt.calls {
				if len(calls) == 0 {
					must.True(t, b.call(err), "call %d was withheld", i)
				} else {
					calls[i].End(b.now, err)
				}
				b.now = b.now.Add(tt.every)
			}
			expect.Equal(t, b.tripped, tt.want, "tripped")
		})
	}
}

// trips returns the errors of n round trips, each with this many callers.
func trips(n, callers int) (errs []error) {
	for range n {
		var trip Trip
		for range callers {
			errs = append(errs, fmt.Errorf("a caller: %w", trip.Fail(errDown)))
		}
	}
	return errs
}

// byTurns reorders errs, the errors of n round trips, so that the round trips take turns.
func byTurns(errs []error, n int) (turns []error) {
	each := len(errs) / n
	for i := range each {
		for trip := range n {
			turns = append(turns, errs[trip*each+i])
		}
	}
	return turns
}

func TestTripKeepsTheError(t *testing.T) {
	var first, second Trip
	err := second.Fail(first.Fail(io.EOF))
	expect.True(t, errors.Is(err, io.EOF) && err.Error() == "EOF", "got %v, want EOF", err)
	b := newBreakerAt(t)
	b.call(err)
	if b.call(second.Fail(errDown)); b.window.trips != 2 || b.row != 2 {
		t.Errorf("got %d failed round trips and %d in a row, want 2: an error counts for the round trip that caused it", b.window.trips, b.row)
	}
}

func TestEachBreakerCountsATrip(t *testing.T) {
	var trip Trip
	for range 2 {
		b := newBreakerAt(t)
		b.call(trip.Fail(errDown))
		if b.call(trip.Fail(errDown)); b.window.trips != 1 || b.window.failed != 2 {
			t.Errorf("got %d round trips of %d calls, want 1 of 2", b.window.trips, b.window.failed)
		}
	}
}

func TestDismissedCallsSayNothing(t *testing.T) {
	b := newBreakerAt(t)
	for range tripRow - 1 {
		b.row++
		b.enter("").Dismiss()
	}
	expect.True(t, b.window.ended == 0 && b.row == tripRow-1 && b.State(b.now) == (State{}),
		"got %+v after dismissed calls", b.State(b.now))
}

// docs/failure.md states these numbers. A pause is drawn at random, so there are several.
func TestPausesAsDocumented(t *testing.T) {
	const ms = time.Millisecond
	for range 20 {
		b := newBreakerAt(t)
		want := func(why string, least, most time.Duration) {
			t.Helper()
			pause := b.resume.Sub(b.now)
			expect.True(t, pause >= least && pause <= most, "%s: got a pause of %v, want %v to %v", why, pause, least, most)
		}
		b.trips()
		want("the first outage", 50*ms, 100*ms)
		for range 3 {
			b.now = b.resume
			b.call(errDown)
		}
		want("after three probes that failed", 250*ms, 500*ms)
		successes := 0
		for b.now = b.resume; b.tripped; successes++ {
			b.call(nil)
		}
		expect.Equal(t, successes, 31, "closed after successes")
		b.now = b.now.Add(5*time.Second - 1)
		b.trips()
		want("an outage less than five seconds later", 250*ms, 500*ms)
		b.recovers()
		b.now = b.now.Add(5 * time.Second)
		b.trips()
		want("an outage five seconds later", 50*ms, 100*ms)
	}
}

func TestProbesOnceThenRamps(t *testing.T) {
	b := newBreakerAt(t)
	b.trips()
	_, err := b.Enter(b.now)
	must.True(t, errors.Is(err, errDown), "got %v during the pause, want the reason", err)
	b.now = b.now.Add(firstPause)
	for allowed := 1; allowed < rampEnd; allowed++ {
		var calls []Call
		for i := range allowed {
			calls = append(calls, b.enter(fmt.Sprintf("call %d of %d", i+1, allowed)))
		}
		_, err := b.Enter(b.now)
		must.True(t, err != nil, "more than %d calls at once were let through", allowed)
		calls[0].End(b.now, nil)
		for _, c := range calls[1:] { // an error about the claims says nothing about the store
			c.Dismiss()
		}
	}
	must.True(t, !b.tripped, "the breaker is not closed after the ramp")
	if s := b.State(b.now); s.Calls != 0 || !s.Since.Equal(b.now) || !errors.Is(s.Err, errDown) {
		t.Errorf("got %+v, want closed now, and the last failure", s)
	}
}

func TestPauseIsJittered(t *testing.T) {
	pauses := make(map[time.Duration]bool)
	for range 50 {
		b := newBreakerAt(t)
		b.trips()
		pauses[b.resume.Sub(b.now)] = true
	}
	expect.AtLeast(t, len(pauses), 10, "50 pauses have lengths (processes would probe in step)")
}

func TestFailureInTheRampStartsOver(t *testing.T) {
	b := newBreakerAt(t)
	b.trips()
	b.now = b.resume
	for range 3 {
		must.True(t, b.call(nil), "withheld in the ramp")
	}
	b.call(errDown)
	expect.True(t, !b.call(nil) && b.pause == 2*firstPause,
		"got allowed %d and pause %v after a failure in the ramp, want a longer pause", b.allowed, b.pause)
}

func TestStragglers(t *testing.T) {
	b := newBreakerAt(t)
	const late = 2 + tripFailures
	var calls []Call
	for range late {
		calls = append(calls, b.enter("before the pause"))
	}
	b.trips()
	resume := b.resume
	for _, c := range calls[:tripFailures] {
		c.End(b.now, errDown)
	}
	calls[tripFailures].End(b.now, nil)
	expect.Equal(t, b.resume, resume, "end of the pause")
	expect.True(t, b.pause == firstPause && !b.call(nil), "calls from before the pause changed it: %+v", b.State(b.now))
	b.now = resume
	expect.True(t, !b.call(nil), "a probe was let through while somebody still waits for a call")
	calls[late-1].End(b.now, nil)
	expect.Equal(t, b.State(b.now).Calls, 0, "calls in flight")
}

func TestPausesInSpiteOfLateSuccesses(t *testing.T) {
	b := newBreakerAt(t)
	calls := []Call{b.enter("first"), b.enter("second")}
	b.trips()
	for _, c := range calls {
		c.End(b.now, nil)
		b.wantWithholds(true, "after a call from before the pause went well")
	}
	b.now = b.resume.Add(-1)
	b.wantWithholds(true, "before the pause is over")
	b.now = b.resume
	expect.True(t, b.call(nil), "no probe was let through after the pause")
}

// If a store fails whenever it gets all calls, the pauses grow until the store has been healthy for a while.
func TestDoesNotFlap(t *testing.T) {
	b := newBreakerAt(t)
	for i, want := range []time.Duration{firstPause, 2 * firstPause, 4 * firstPause, longestPause, longestPause, firstPause, longestPause} {
		switch i {
		case 5:
			b.now = b.since.Add(steadyAfter)
		case 6:
			b.pause = longestPause
			b.now = b.since.Add(steadyAfter - 1)
		}
		b.trips()
		expect.Equal(t, b.pause, want, "outage %d: got a pause", i+1)
		b.recovers()
	}
}

func TestKeepsItsPauseDuringALongOutage(t *testing.T) {
	b := newBreakerAt(t)
	b.trips()
	for begun := b.now; b.now.Sub(begun) < 3*steadyAfter; {
		b.now = b.resume
		b.call(errDown)
	}
	expect.Equal(t, b.pause, longestPause, "a pause (the longest)")
}

func TestBoundsCallsInFlight(t *testing.T) {
	b := newBreakerAt(t)
	var owed, calls []Call
	for range MaxCalls + 1 {
		c, err := b.EnterOwed(b.now)
		must.True(t, err == nil, "a settlement: %v", err)
		owed = append(owed, c)
	}
	for range MaxCalls {
		calls = append(calls, b.enter("settlements do not count"))
	}
	expect.ErrorIs(t, expect.ErrorOf(b.Enter(b.now)), ErrTooMany, "b.Enter(b.now))")
	c, err := b.EnterOwed(b.now)
	expect.NoError(t, err, "a settlement at the bound")
	expect.Equal(t, b.State(b.now).Calls, 2*MaxCalls+2, "calls in flight")
	for _, c := range append(owed, c) {
		c.End(b.now, nil)
	}
	expect.ErrorIs(t, expect.ErrorOf(b.Enter(b.now)), ErrTooMany, "after settlements had ended")
	calls[0].End(b.now, nil)
	expect.True(t, b.call(nil), "a call was denied after another had ended")
}

// A settlement is sent whatever the state of the breaker, and does not change an open breaker.
func TestOwedCallsPassAnOpenBreaker(t *testing.T) {
	b := newBreakerAt(t)
	b.trips()
	owed := func(end func(Call)) {
		t.Helper()
		end(must.Get(b.EnterOwed(b.now))(t))
	}
	succeed, fail := func(c Call) { c.End(b.now, nil) }, func(c Call) { c.End(b.now, errDown) }
	for range 2 * tripRow {
		owed(succeed)
		owed(fail)
	}
	b.wantWithholds(true, "in the pause, after settlements")
	held, _ := b.EnterOwed(b.now)
	b.now = b.resume
	b.wantWithholds(false, "after the pause, with a settlement in flight")
	probe := b.enter("the probe")
	owed(succeed)
	b.wantWithholds(true, "with a probe in flight, after a settlement")
	probe.End(b.now, nil)
	for range 2 * tripRow {
		owed(fail)
	}
	calls := []Call{b.enter("settlements do not count in the ramp"), b.enter("the second of two")}
	expect.Fails(t, expect.ErrorOf(b.Enter(b.now)), "a third call was let through")
	owed(succeed)
	for _, c := range append(calls, held) {
		c.End(b.now, nil)
	}
	expect.True(t, b.call(nil), "a call was denied in the ramp")
}

// A caller may report its round trip late, when the breaker has already counted it and the store is back.
func TestLateCallerOfACountedTrip(t *testing.T) {
	b := newBreakerAt(t)
	var trip Trip
	late := b.enter("late")
	b.call(trip.Fail(errDown))
	b.trips()
	b.now = b.resume
	b.allowed = 2 // as after a probe
	late.End(b.now, trip.Fail(errDown))
	expect.True(t, !b.down(), "a failure that was counted before began another pause")
}

func TestState(t *testing.T) {
	b := newBreakerAt(t)
	begun := b.now
	b.trips()
	want := func(withholds bool, since time.Time, why string) {
		t.Helper()
		s := b.State(b.now)
		must.True(t, s.Withholds == withholds && s.Since.Equal(since), "%s: got %+v, want %v since %v", why, s, withholds, since)
		down, err := b.Down()
		must.True(t, down == b.down() && errors.Is(err, errDown), "%s: down %v: %v", why, down, err)
	}
	b.now = b.resume.Add(-1)
	want(true, begun, "at the end of the pause")
	b.now = b.resume.Add(time.Hour)
	want(false, b.resume, "after the pause, without traffic")
	probe := b.enter("probe")
	want(true, begun, "while one call probes the store, others are withheld")
	probe.End(b.now, errDown)
	want(true, begun, "the probe has failed: the outage goes on")
	b.now = b.resume
	back := b.now
	b.call(nil)
	want(false, back, "after the first success")
	first := b.enter("first")
	want(false, back, "one call in flight, a second is let through")
	second := b.enter("second")
	want(true, back, "a third would be withheld")
	first.End(b.now, nil)
	want(false, back, "three may be in flight")
	b.now = b.now.Add(time.Second)
	second.End(b.now, errDown)
	want(true, b.now, "another outage")
}
