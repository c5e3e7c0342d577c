package core

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// An outageLog is what noteOutage has logged.
type outageLog struct {
	fallback bool        // it is about the fallback
	down     atomic.Bool // the state that was logged last; written with mu locked
	mu       sync.Mutex  // held by the goroutine that logs
	next     time.Time   // the earliest time to log the next outage
}

// noteOutage logs that the store has gone down, at most once per reportInterval, or is back, unless that was logged already or
// another goroutine is logging: that one then logs what has changed in the meantime. So nobody waits for a slog handler, which may
// be slow, or call the limiter. down is the state of the breaker after a call.
func (k *storeClient) noteOutage(ctx context.Context, now time.Time, down bool) {
	o := &k.outages
	if down == o.down.Load() || !o.mu.TryLock() {
		return
	}
	down, err := k.breaker.Down()
	tooSoon := down && now.Before(o.next)
	defer func() { // also if the handler panics
		o.mu.Unlock()
		if down, _ := k.breaker.Down(); !tooSoon {
			k.noteOutage(ctx, time.Now(), down)
		}
	}()
	if down == o.down.Load() || tooSoon {
		return
	}
	o.down.Store(down)
	away, back := "spillgate: the store is unavailable, failure modes decide", "spillgate: the store is back"
	if o.fallback {
		away, back = "spillgate: the fallback is unavailable, requests that need it are not decided", "spillgate: the fallback is back"
	}
	ctx = context.WithoutCancel(ctx)
	if down {
		o.next = now.Add(reportInterval)
		k.reporter.log().WarnContext(ctx, away, "err", err)
	} else {
		k.reporter.log().InfoContext(ctx, back)
	}
}

// An overload counts the requests that were decided from memory because too many calls of a healthy store were in flight.
type overload struct {
	requests atomic.Uint64
	last     atomic.Pointer[time.Time]
}

// note counts a request that is decided from memory because of err. It logs the first request of an overload: after
// reportInterval without one, the next begins another.
func (o *overload) note(ctx context.Context, log *slog.Logger, err error) {
	now := time.Now()
	o.requests.Add(1)
	if last := o.last.Swap(&now); last == nil || now.Sub(*last) >= reportInterval {
		log.WarnContext(ctx, "spillgate: too many requests for the store at once, local limits decide the excess", "err", err)
	}
}
