package storetest

import (
	"testing"
	"time"
)

const (
	maxStall    = 500 * time.Millisecond // for how long a machine with a real clock may stop while a call returns
	calm        = 100 * time.Millisecond // a row during which the machine has stopped for less is not repeated
	maxAttempts = 5                      // how often a row may run
)

// An attempt is one run of a row on a real clock. The zero attempt is one whose failure counts.
type attempt struct {
	repeatable bool
	started    time.Time
	slept      time.Duration // as the row asked for
	first      time.Time     // when the first take was decided
}

// A repetition is what a row panics with that is to run again.
type repetition struct{}

// repeat runs a row, and runs it again as long as it fails while the machine stalls.
func (h Harness) repeat(t *testing.T, r row) {
	for left := maxAttempts - 1; ; left-- {
		s := &suite{T: t, store: h.New(t), sleep: h.Advance, apart: h.Apart, hang: h.Hang, stall: maxStall}
		s.attempt = attempt{repeatable: left > 0, started: time.Now()}
		if s.completes(r) {
			return
		}
	}
}

// completes runs a row and reports whether its result counts.
func (s *suite) completes(r row) (ok bool) {
	defer func() {
		if v := recover(); v != nil && v != any(repetition{}) {
			panic(v)
		}
	}()
	r.run(s)
	return true
}

// pause lets d pass by the clock of the store.
func (s *suite) pause(d time.Duration) {
	begun := time.Now()
	s.sleep(d)
	s.slept += min(d, time.Since(begun))
}

// disturbed reports whether a failure may be due to the machine: it has stopped for some time, or a day has ended and with it the
// windows of most rows.
func (s *suite) disturbed() bool {
	const day = 24 * time.Hour
	stopped := time.Since(s.started) - s.slept
	return s.repeatable && (stopped > calm || !s.first.Truncate(day).Equal(s.last.Truncate(day)))
}

// Errorf fails the row, or has it repeated if it was disturbed. Only the goroutine of the row calls it.
func (s *suite) Errorf(format string, args ...any) {
	s.Helper()
	if s.disturbed() {
		panic(repetition{})
	}
	s.T.Errorf(format, args...)
}

// Fatalf does what Errorf does, and ends the row.
func (s *suite) Fatalf(format string, args ...any) {
	s.Helper()
	s.Errorf(format, args...)
	s.FailNow()
}
