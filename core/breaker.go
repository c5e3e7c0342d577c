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

// The breaker's measures. A store that is down costs each process one call per pause.
const (
	maxCalls     = 4096 // calls of a store under way at once; further ones fail at once
	tripWindow   = time.Second
	tripFailures = 5  // in a window, and at least half of its calls
	tripRow      = 20 // one after another: a busy process need not wait until they are half of a window
	firstPause   = 100 * time.Millisecond
	longestPause = 500 * time.Millisecond
	wholeRamp    = 32 // calls under way at once after which there is no need to withhold any
)

var errTooMany = errors.New("too many calls of the store are under way")

// Health says how a limiter gets on with its store.
type Health struct {
	Open  bool      // calls are withheld: decisions are made by the failure modes of the rules
	Since time.Time // of the last change of Open; zero if there was none
	Err   error     // the last failure of the store, if any
	Calls int       // calls of the store under way
}

// A breaker keeps calls away from a store that fails or is slow, so that requests do not queue up for it. Its one
// measure is how many calls may be under way at once: all of them while the store is well, none for a jittered pause
// after it has failed, then one to probe it, and one more after each success, which doubles them from one round of calls
// to the next. See M. Nygard, Release It!, ch. 5, and RFC 5681, section 3.1, for such a slow start.
type breaker struct {
	mu      sync.Mutex
	allowed int // calls that may be under way at once while open; 0 during a pause
	calls   int // under way
	pause   time.Duration
	resume  time.Time // end of the pause
	window  time.Time // start of the window in which calls are counted
	ended   int       // calls that ended in it
	failed  int       // those that failed
	row     int       // failures since the last success
	health  Health
	turns   []turn // not logged yet
	telling bool   // somebody is logging them
	log     *reporter
}

// enter asks for a call. If it may be made, one record must follow.
func (b *breaker) enter(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.health.Open && b.allowed == 0 && !now.Before(b.resume) {
		b.allowed = 1
	}
	if b.health.Open && b.calls >= b.allowed {
		return fmt.Errorf("withheld since %s: %w", b.health.Since.UTC().Format(time.RFC3339), b.health.Err)
	}
	if b.calls >= maxCalls {
		return errTooMany
	}
	b.calls++
	return nil
}

// record takes note of how a call went, and logs if that opens or closes b. Errors that wrap ErrInvalid say nothing about
// the store: they neither open nor close b.
func (b *breaker) record(ctx context.Context, now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.health.Open
	b.calls--
	if !errors.Is(err, ErrInvalid) {
		b.note(now, err)
	}
	if b.health.Open != was {
		b.turns = append(b.turns, turn{context.WithoutCancel(ctx), b.health.Open, err})
		b.tell()
	}
}

// A turn is a change of a breaker that is to be logged.
type turn struct {
	ctx  context.Context
	open bool
	err  error
}

func (t *turn) write(log *slog.Logger) {
	if t.open {
		log.WarnContext(t.ctx, "spillgate: the store is unavailable, failure modes decide", "err", t.err)
	} else {
		log.InfoContext(t.ctx, "spillgate: the store is back")
	}
}

// tell logs the turns in order, without a lock, since nobody knows what a handler does. If another goroutine is at it, that
// one goes on.
func (b *breaker) tell() {
	if b.telling {
		return
	}
	b.telling = true
	defer func() { b.telling = false }()
	for len(b.turns) > 0 {
		t := b.turns[0]
		b.turns = b.turns[1:]
		func() {
			b.mu.Unlock()
			defer b.mu.Lock()
			t.write(b.log.log())
		}()
	}
}

func (b *breaker) note(now time.Time, err error) {
	if now.Sub(b.window) >= tripWindow {
		b.window, b.ended, b.failed = now, 0, 0
	}
	b.ended++
	if err == nil {
		b.succeed(now)
		return
	}
	b.failed++
	b.row++
	b.health.Err = err
	if b.health.Open && b.allowed > 0 || b.row >= tripRow || b.failed >= tripFailures && 2*b.failed >= b.ended {
		b.trip(now)
	}
}

// succeed lets one more call through at once, and closes the breaker when that is as good as all.
func (b *breaker) succeed(now time.Time) {
	b.row = 0
	if !b.health.Open || b.allowed == 0 { // an answer from before a pause does not end it
		return
	}
	if b.allowed++; b.allowed < wholeRamp {
		return
	}
	b.health.Open, b.health.Since = false, now
	b.pause, b.ended, b.failed = 0, 0, 0
}

// trip begins a pause, twice as long as the last one if the store has not been well in between.
func (b *breaker) trip(now time.Time) {
	if !b.health.Open {
		b.health.Open, b.health.Since = true, now
	} else if b.allowed == 0 { // a straggler from before the pause
		return
	}
	b.pause = min(max(2*b.pause, firstPause), longestPause)
	b.allowed = 0
	b.resume = now.Add(b.pause/2 + rand.N(b.pause/2))
	b.ended, b.failed, b.row = 0, 0, 0
}

func (b *breaker) snapshot() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.health
	h.Calls = b.calls
	return h
}
