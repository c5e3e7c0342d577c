package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// The constants of the breaker. A store that is down costs each process one call per pause.
const (
	maxCalls     = 4096 // calls of a store in flight; further ones fail at once
	tripWindow   = time.Second
	tripFailures = 5  // in a window, and at least half of its calls
	tripRow      = 20 // one after another: a busy process need not wait until they are half of a window
	firstPause   = 100 * time.Millisecond
	longestPause = 500 * time.Millisecond
	steadyAfter  = 5 * time.Second // of a store that is back: then the next outage begins with firstPause again
	rampEnd      = 32              // calls in flight after which there is no need to withhold any
)

var errTooMany = errors.New("too many calls of the store are under way")

// A breaker withholds calls from a store that fails or is slow, so that requests do not queue up for it. It bounds how many
// calls may be in flight: not at all while it is closed; to none for a jittered pause after it has tripped; then
// to one, as a probe, and to one more after each success, which doubles the bound from one round of calls to the next.
// See M. Nygard, Release It!, ch. 5, and RFC 5681, section 3.1, for such a slow start.
type breaker struct {
	log *reporter

	mu     sync.Mutex
	calls  int   // in flight
	err    error // the last failure
	window struct {
		begun         time.Time
		ended, failed int // calls that ended in it, and those that failed
	}
	row int // failures since the last success

	tripped bool          // and not closed since
	allowed int           // while tripped: how many calls may be in flight; 0 during a pause
	pause   time.Duration // the last one
	resume  time.Time     // its end
	since   time.Time     // when the breaker tripped, or the first success after that

	logged      bool         // the log says that the store is unavailable
	logNext     time.Time    // when the log may say so again
	transitions []transition // to be logged
	logging     bool         // a goroutine is logging them
}

// enter asks for a call. If it may be made, one record must follow.
func (b *breaker) enter(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.withholds(now) {
		return fmt.Errorf("withheld since %s: %w", b.since.UTC().Format(time.RFC3339), b.err)
	}
	if b.calls >= maxCalls {
		return errTooMany
	}
	if b.tripped && b.allowed == 0 {
		b.allowed = 1
	}
	b.calls++
	return nil
}

// withholds reports whether a call at now would be withheld.
func (b *breaker) withholds(now time.Time) bool {
	switch {
	case !b.tripped:
		return false
	case b.allowed == 0:
		return now.Before(b.resume) || b.calls > 0
	default:
		return b.calls >= b.allowed
	}
}

// record records how a call ended, and logs if that begins or ends an outage. Errors that wrap ErrInvalid say nothing
// about the store.
func (b *breaker) record(ctx context.Context, now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls--
	switch {
	case err == nil:
		b.count(now)
		b.succeed(now)
	case !errors.Is(err, ErrInvalid):
		b.count(now)
		b.fail(now, err)
	}
	b.report(ctx, now)
}

// count counts a call that has ended.
func (b *breaker) count(now time.Time) {
	if w := &b.window; now.Sub(w.begun) >= tripWindow {
		w.begun, w.ended, w.failed = now, 0, 0
	}
	b.window.ended++
}

// succeed allows one more call at once, and closes the breaker when there is no need to bound them any more.
func (b *breaker) succeed(now time.Time) {
	b.row = 0
	if !b.tripped || b.allowed == 0 { // a call from before a pause does not end it
		return
	}
	if b.allowed == 1 {
		b.since = now
	}
	if b.allowed++; b.allowed == rampEnd {
		b.tripped = false
		b.window.ended, b.window.failed = 0, 0
	}
}

func (b *breaker) fail(now time.Time, err error) {
	b.window.failed++
	b.row++
	b.err = err
	switch {
	case b.tripped && b.allowed == 0: // a call from before the pause
	case b.tripped, b.row >= tripRow, b.window.failed >= tripFailures && 2*b.window.failed >= b.window.ended:
		b.trip(now)
	}
}

// trip begins a pause, twice as long as the last one unless the store was well for a while.
func (b *breaker) trip(now time.Time) {
	if !b.tripped && now.Sub(b.since) >= steadyAfter {
		b.pause = 0
	}
	if !b.tripped || b.allowed > 1 {
		b.since = now
	}
	b.tripped, b.allowed = true, 0
	b.pause = min(max(2*b.pause, firstPause), longestPause)
	b.resume = now.Add(b.pause/2 + rand.N(b.pause/2))
	b.window.ended, b.window.failed, b.row = 0, 0, 0
}

// down reports whether the last answer of the store was a failure that tripped the breaker.
func (b *breaker) down() bool { return b.tripped && b.allowed <= 1 }

// A transition is the beginning or the end of an outage, to be logged.
type transition struct {
	ctx  context.Context
	down bool
	err  error
}

// report logs the beginning of an outage and its end. A store that comes and goes is logged once per reportInterval.
func (b *breaker) report(ctx context.Context, now time.Time) {
	down := b.down()
	if down == b.logged || down && now.Before(b.logNext) {
		return
	}
	b.logged = down
	if down {
		b.logNext = now.Add(reportInterval)
	}
	b.transitions = append(b.transitions, transition{context.WithoutCancel(ctx), down, b.err})
	b.logTransitions()
}

// logTransitions logs the transitions in order. It does not hold the lock meanwhile, because the handler may take long, or ask for the
// health of the store. If another goroutine is logging already, that one goes on.
func (b *breaker) logTransitions() {
	if b.logging {
		return
	}
	b.logging = true
	defer func() { b.logging = false }()
	for len(b.transitions) > 0 {
		t := b.transitions[0]
		b.transitions = b.transitions[1:]
		func() {
			b.mu.Unlock()
			defer b.mu.Lock()
			t.write(b.log.log())
		}()
	}
}

func (t *transition) write(log *slog.Logger) {
	if t.down {
		log.WarnContext(t.ctx, "spillgate: the store is unavailable, failure modes decide", "err", t.err)
	} else {
		log.InfoContext(t.ctx, "spillgate: the store is back")
	}
}
