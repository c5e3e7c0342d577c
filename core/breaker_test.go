package core

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

var errDown = errors.New("down")

// breakerAt is a breaker with a clock of its own.
type breakerAt struct {
	breaker
	t   *testing.T
	now time.Time
}

func newBreakerAt(t *testing.T) *breakerAt {
	return &breakerAt{breaker: breaker{log: new(reporter)}, t: t, now: time.Unix(1_800_000_000, 0)}
}

// call makes a call that ends in err at once, and reports whether it was let through.
func (b *breakerAt) call(err error) bool {
	if b.enter(b.now) != nil {
		return false
	}
	b.record(b.t.Context(), b.now, err)
	return true
}

func (b *breakerAt) wantOpen(open bool, why string) {
	b.t.Helper()
	if got := b.health(b.now).Open; got != open {
		b.t.Fatalf("%s: got open %v, want %v", why, got, open)
	}
}

// trips makes b open.
func (b *breakerAt) trips() {
	b.t.Helper()
	for range tripFailures {
		b.call(errDown)
	}
	b.wantOpen(true, "after failures")
}

func TestBreakerTrips(t *testing.T) {
	ok, down := error(nil), errDown
	invalid := fmt.Errorf("%w: cost", ErrInvalid)
	tests := []struct {
		why   string
		calls []error
		every time.Duration
		open  bool
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
		{"faults of the claims say nothing", []error{invalid, invalid, invalid, invalid, invalid, invalid}, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			b := newBreakerAt(t)
			for i, err := range tt.calls {
				if !b.call(err) {
					t.Fatalf("call %d was withheld", i)
				}
				b.now = b.now.Add(tt.every)
			}
			if b.tripped != tt.open {
				t.Errorf("got tripped %v, want %v", b.tripped, tt.open)
			}
		})
	}
}

func TestBreakerProbesOnceThenRamps(t *testing.T) {
	b := newBreakerAt(t)
	b.trips()
	if err := b.enter(b.now); !errors.Is(err, errDown) {
		t.Fatalf("got %v during the pause, want the reason", err)
	}
	b.now = b.now.Add(firstPause)
	for allowed := 1; allowed < rampEnd; allowed++ {
		for i := range allowed {
			if err := b.enter(b.now); err != nil {
				t.Fatalf("call %d of %d was withheld: %v", i+1, allowed, err)
			}
		}
		if b.enter(b.now) == nil {
			t.Fatalf("more than %d calls at once were let through", allowed)
		}
		b.record(t.Context(), b.now, nil)
		for range allowed - 1 { // a fault of the claims says nothing, not even that the store is well
			b.record(t.Context(), b.now, ErrInvalid)
		}
	}
	if b.tripped {
		t.Fatal("the breaker is not closed after the ramp")
	}
	if h := b.health(b.now); h.Calls != 0 || !h.Since.Equal(b.now) || !errors.Is(h.Err, errDown) {
		t.Errorf("got %+v, want closed now, and the last failure", h)
	}
}

func TestBreakerPauses(t *testing.T) {
	b := newBreakerAt(t)
	b.trips()
	for longest := firstPause; ; longest = min(2*longest, longestPause) {
		pause := b.resume.Sub(b.now)
		if pause < longest/2 || pause >= longest {
			t.Fatalf("got a pause of %v, want one from %v to %v", pause, longest/2, longest)
		}
		b.now = b.resume.Add(-1)
		if b.call(nil) {
			t.Fatal("a call was let through before the pause was over")
		}
		if b.now = b.resume; !b.call(errDown) {
			t.Fatal("no probe was let through after the pause")
		}
		b.wantOpen(true, "after a failed probe")
		if b.call(nil) {
			t.Fatal("a second probe was let through")
		}
		if b.pause == longestPause && longest == longestPause {
			return
		}
	}
}

func TestBreakerPauseIsJittered(t *testing.T) {
	pauses := make(map[time.Duration]bool)
	for range 50 {
		b := newBreakerAt(t)
		b.trips()
		pauses[b.resume.Sub(b.now)] = true
	}
	if len(pauses) < 10 {
		t.Errorf("50 pauses have %d lengths: processes would probe in step", len(pauses))
	}
}

func TestBreakerFailureInTheRampStartsOver(t *testing.T) {
	b := newBreakerAt(t)
	b.trips()
	b.now = b.resume
	for range 3 {
		if !b.call(nil) {
			t.Fatal("withheld in the ramp")
		}
	}
	b.call(errDown)
	if b.call(nil) || b.pause != 2*firstPause {
		t.Errorf("got allowed %d and pause %v after a failure in the ramp, want a longer pause", b.allowed, b.pause)
	}
}

func TestBreakerStragglers(t *testing.T) {
	b := newBreakerAt(t)
	const late = 2 + tripFailures
	for range late {
		if err := b.enter(b.now); err != nil {
			t.Fatal(err)
		}
	}
	b.trips()
	resume := b.resume
	for range tripFailures {
		b.record(t.Context(), b.now, errDown)
	}
	b.record(t.Context(), b.now, nil)
	if b.resume != resume || b.pause != firstPause || b.call(nil) {
		t.Errorf("calls from before the pause changed it: %+v", b.health(b.now))
	}
	b.now = resume
	if b.enter(b.now) == nil {
		t.Error("a probe was let through while somebody still waits for a call")
	}
	b.record(t.Context(), b.now, nil)
	if got := b.health(b.now).Calls; got != 0 {
		t.Errorf("got %d calls in flight, want 0", got)
	}
}

func TestBreakerBoundsCallsUnderWay(t *testing.T) {
	b := newBreakerAt(t)
	for range maxCalls {
		if err := b.enter(b.now); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.enter(b.now); !errors.Is(err, errTooMany) {
		t.Errorf("got %v, want %v", err, errTooMany)
	}
	b.record(t.Context(), b.now, nil)
	if !b.call(nil) {
		t.Error("a call was refused after another had ended")
	}
}
