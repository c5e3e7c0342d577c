package core

import (
	"testing"
	"time"
)

// recovers makes b close, once its pause is over.
func (b *breakerAt) recovers() {
	b.t.Helper()
	for b.now = b.resume; b.tripped; {
		if !b.call(nil) {
			b.t.Fatal("withheld in the ramp")
		}
	}
}

// A store that fails whenever it gets all calls has ever longer pauses, until it was well for a while.
func TestBreakerDoesNotFlap(t *testing.T) {
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
		if b.pause != want {
			t.Errorf("outage %d: got a pause of %v, want %v", i+1, b.pause, want)
		}
		b.recovers()
	}
}

func TestBreakerKeepsItsPauseDuringALongOutage(t *testing.T) {
	b := newBreakerAt(t)
	b.trips()
	for begun := b.now; b.now.Sub(begun) < 3*steadyAfter; {
		b.now = b.resume
		b.call(errDown)
	}
	if b.pause != longestPause {
		t.Errorf("got a pause of %v, want the longest", b.pause)
	}
}
