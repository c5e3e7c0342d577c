package core

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/breaker"
)

// An outageLog logs when a store goes down, at most once per reportInterval, and when it is back.
type outageLog struct {
	log     *reporter
	breaker *breaker.Breaker
	down    atomic.Bool // the state that was logged last; written with mu locked

	mu   sync.Mutex // held by the goroutine that logs
	next time.Time  // the earliest time to log the next outage
}

// note logs that the store has gone down or is back, unless that was logged already or another goroutine is logging: that one
// then logs what has changed in the meantime. So nobody waits for a slog handler, which may be slow, or call the limiter. down is
// the state of the breaker after a call.
func (o *outageLog) note(ctx context.Context, now time.Time, down bool) {
	if down == o.down.Load() || !o.mu.TryLock() {
		return
	}
	down, err := o.breaker.Down()
	tooSoon := down && now.Before(o.next)
	defer func() { // also if the handler panics
		o.mu.Unlock()
		if down, _ := o.breaker.Down(); !tooSoon {
			o.note(ctx, time.Now(), down)
		}
	}()
	if down == o.down.Load() || tooSoon {
		return
	}
	o.down.Store(down)
	ctx = context.WithoutCancel(ctx)
	if down {
		o.next = now.Add(reportInterval)
		o.log.log().WarnContext(ctx, "spillgate: the store is unavailable, failure modes decide", "err", err)
	} else {
		o.log.log().InfoContext(ctx, "spillgate: the store is back")
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
