// Package breaker stops calls to a store that fails or is slow, so that requests do not queue up for it.
//
//	call, err := b.Enter(time.Now())
//	if err != nil {
//		return err // the call must not be made
//	}
//	err = ask()
//	call.End(time.Now(), err)
//
// A Breaker counts failed round trips, not failed calls: a store that serves many callers in one round trip marks their
// errors with the Trip that they share.
package breaker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// MaxCalls bounds the calls in flight; Enter denies further ones at once.
const MaxCalls = 4096

const (
	tripWindow   = time.Second
	tripFailures = 5  // failed round trips in a window, if at least half of its calls have failed
	tripRow      = 20 // failed round trips without a success in between
	firstPause   = 100 * time.Millisecond
	longestPause = 500 * time.Millisecond
	steadyAfter  = 5 * time.Second // after a store has been back for this long, its next outage begins with firstPause again
	rampEnd      = 32              // calls in flight at which the ramp ends
)

// ErrTooMany is the error of a call that was not made because too many others are in flight. It says nothing about the health of
// the store.
var ErrTooMany = errors.New("too many calls of the store are in flight")

// A Breaker bounds how many calls may be in flight. While it is closed, the bound is MaxCalls. After it has tripped,
// the bound is 0 for a jittered pause, and then 1, for a probe. Each success raises the bound by 1, so it doubles from
// one round of calls to the next. See M. Nygard, Release It!, ch. 5, and RFC 5681, section 3.1, for such a slow start.
// A store that is down costs each process one call per pause.
//
// The zero value is closed. A Breaker is safe for concurrent use.
type Breaker struct {
	mu     sync.Mutex
	calls  int   // in flight, by Enter
	owed   int   // in flight, by EnterOwed
	err    error // the last failure
	window struct {
		begun         time.Time
		ended, failed int // calls
		trips         int // failed round trips
	}
	row int // failed round trips since the last success

	tripped bool          // the breaker has tripped and has not closed since
	allowed int           // while tripped: how many calls may be in flight; 0 during a pause
	pause   time.Duration // the length of the last pause
	resume  time.Time     // the end of the last pause
	since   time.Time     // when the breaker tripped, or the first success after that
}

// A Call is one call that a Breaker has allowed. Call exactly one of its methods when the call has ended. Each of them
// reports whether the store is down: see Breaker.Down.
type Call struct {
	breaker *Breaker
	owed    bool
}

// Enter asks for permission to make a call. Its error is ErrTooMany or, if the breaker does not allow the call, wraps
// the last failure of the store.
func (b *Breaker) Enter(now time.Time) (Call, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.withholds(now) {
		return Call{}, fmt.Errorf("withheld since %s: %w", b.since.UTC().Format(time.RFC3339), b.err)
	}
	if b.tripped && b.allowed == 0 {
		b.allowed = 1
	}
	if b.calls == MaxCalls {
		return Call{}, ErrTooMany
	}
	b.calls++
	return Call{b, false}, nil
}

// EnterOwed is Enter for a call that completes an earlier one, such as a settlement. It allows every such call: a store
// that is late for others may still answer it, and the calls that were allowed before bound how many there are. While the
// breaker is open, owed calls do not change its state.
func (b *Breaker) EnterOwed(time.Time) (Call, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owed++
	return Call{b, true}, nil
}

// withholds reports whether the breaker would not allow a call at now.
func (b *Breaker) withholds(now time.Time) bool {
	switch {
	case !b.tripped:
		return false
	case b.allowed == 0:
		return now.Before(b.resume) || b.calls > 0
	default:
		return b.calls >= b.allowed
	}
}

// leave counts c as ended.
func (c Call) leave() *Breaker {
	if c.owed {
		c.breaker.owed--
	} else {
		c.breaker.calls--
	}
	return c.breaker
}

// Dismiss ends a call that says nothing about the store, such as one with invalid claims.
func (c Call) Dismiss() (down bool) {
	c.breaker.mu.Lock()
	defer c.breaker.mu.Unlock()
	return c.leave().down()
}

// End ends a call that failed with err or, if err is nil, that the store has answered. An answer allows one more call in flight, and
// closes the breaker at the end of the ramp.
func (c Call) End(now time.Time, err error) (down bool) {
	c.breaker.mu.Lock()
	defer c.breaker.mu.Unlock()
	b := c.leave()
	if c.owed && b.tripped {
		return b.down()
	}
	w := &b.window
	if now.Sub(w.begun) >= tripWindow {
		w.begun, w.ended, w.failed, w.trips = now, 0, 0, 0
	}
	w.ended++
	if err != nil {
		b.fail(now, err)
	} else if b.row = 0; b.tripped && b.allowed > 0 { // a call that began before a pause does not end it
		if b.allowed == 1 {
			b.since = now
		}
		if b.allowed++; b.allowed == rampEnd {
			b.tripped = false
			w.ended, w.failed, w.trips = 0, 0, 0
		}
	}
	return b.down()
}

// fail records a call that failed with err, and trips b if there are too many.
func (b *Breaker) fail(now time.Time, err error) {
	b.window.failed++
	b.err = err
	shared, ok := As[*tripError](err)
	counted := ok && !shared.trip.countFor(b)
	if !counted {
		b.window.trips++
		b.row++
	}
	switch {
	case b.tripped && (b.allowed == 0 || counted): // a call that began before the pause
	case b.tripped, b.row >= tripRow, b.window.trips >= tripFailures && 2*b.window.failed >= b.window.ended:
		b.trip(now)
	}
}

// trip begins a pause, twice as long as the last one, unless the store has been healthy for steadyAfter.
func (b *Breaker) trip(now time.Time) {
	if !b.tripped && now.Sub(b.since) >= steadyAfter {
		b.pause = 0
	}
	if !b.tripped || b.allowed > 1 {
		b.since = now
	}
	b.tripped, b.allowed = true, 0
	b.pause = min(max(2*b.pause, firstPause), longestPause)
	b.resume = now.Add(b.pause/2 + rand.N(b.pause/2))
	b.window.ended, b.window.failed, b.window.trips, b.row = 0, 0, 0, 0
}

// down reports whether the breaker has tripped and no call has succeeded since.
func (b *Breaker) down() bool { return b.tripped && b.allowed <= 1 }

// Down reports whether the store is down: the breaker has tripped, and no call has succeeded since. It returns the last failure.
func (b *Breaker) Down() (down bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.down(), b.err
}

// A State describes a Breaker.
type State struct {
	Withholds bool      // Enter would not allow a call now
	Since     time.Time // when the last outage began or, if Withholds is false, ended; zero if there was none
	Err       error     // the last failure, if any
	Calls     int       // in flight
}

// State returns the state of b at now.
func (b *Breaker) State(now time.Time) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := State{Withholds: b.withholds(now), Since: b.since, Err: b.err, Calls: b.calls + b.owed}
	if b.down() && !s.Withholds {
		s.Since = b.resume // the next call is allowed
	}
	return s
}

// A Trip is one round trip of a store for several calls. If it fails, all their errors come from Fail, and each Breaker
// counts one failure. The zero value is a new round trip.
type Trip struct {
	mu      sync.Mutex
	counted []*Breaker // several limiters may use one store
}

// Fail returns err as the failure of t, unless err is the failure of a Trip already. Its text and the errors that it
// wraps stay the same.
func (t *Trip) Fail(err error) error {
	if _, ok := As[*tripError](err); ok {
		return err
	}
	return &tripError{err, t}
}

// countFor marks the failure of t as counted by b, and reports whether it was not counted before.
func (t *Trip) countFor(b *Breaker) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.counted, b) {
		return false
	}
	t.counted = append(t.counted, b)
	return true
}

type tripError struct {
	error
	trip *Trip
}

func (e *tripError) Unwrap() error { return e.error }

// As returns the first error of type T in the tree of err, as errors.AsType of Go 1.26 does. errors.As needs reflection,
// which would make programs 20 KB larger.
func As[T error](err error) (_ T, found bool) {
	var none T
	for err != nil {
		if e, ok := err.(T); ok { //nolint:errorlint // As unwraps
			return e, true
		}
		if as, ok := err.(interface{ As(any) bool }); ok {
			if e := new(T); as.As(e) {
				return *e, true
			}
		}
		switch e := err.(type) { //nolint:errorlint // As unwraps
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				if found, ok := As[T](err); ok {
					return found, true
				}
			}
			return none, false
		default:
			return none, false
		}
	}
	return none, false
}
