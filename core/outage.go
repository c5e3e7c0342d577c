package core

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/breaker"
)

// An outageLog logs when a store goes down and when it is back, in order. A store that goes up and down repeatedly is
// logged once per reportInterval.
type outageLog struct {
	log     *reporter
	breaker *breaker.Breaker
	down    atomic.Bool // the state that was logged last; written with mu locked

	mu      sync.Mutex
	next    time.Time // the earliest time to log the next outage
	turns   []func()  // log the beginning or the end of an outage each
	writing bool      // a goroutine is calling them
}

// note logs that the store has gone down or is back, unless that was logged already. down is the state of the breaker
// after a call.
func (o *outageLog) note(ctx context.Context, now time.Time, down bool) {
	if down == o.down.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	down, err := o.breaker.Down() // another call may have changed the state and logged the change
	if down == o.down.Load() || down && now.Before(o.next) {
		return
	}
	o.down.Store(down)
	if down {
		o.next = now.Add(reportInterval)
	}
	ctx = context.WithoutCancel(ctx)
	o.turns = append(o.turns, func() {
		if down {
			o.log.log().WarnContext(ctx, "spillgate: the store is unavailable, failure modes decide", "err", err)
		} else {
			o.log.log().InfoContext(ctx, "spillgate: the store is back")
		}
	})
	o.write()
}

// write calls o.turns, unless another goroutine is doing so. It unlocks o.mu while it logs, because a slog handler may
// be slow, or call StoreHealth.
func (o *outageLog) write() {
	if o.writing {
		return
	}
	o.writing = true
	defer func() { o.writing = false }()
	for len(o.turns) > 0 {
		turn := o.turns[0]
		o.turns = o.turns[1:]
		func() {
			o.mu.Unlock()
			defer o.mu.Lock()
			turn()
		}()
	}
}

// An overload counts the requests that were decided from this process's memory because too many calls of a healthy
// store were in flight.
type overload struct {
	mu       sync.Mutex
	requests uint64
	last     time.Time
}

// note counts a request that is decided from memory because of err. It logs the first request of an overload: after
// reportInterval without one, the next begins another.
func (o *overload) note(ctx context.Context, log *slog.Logger, err error) {
	now := time.Now()
	o.mu.Lock()
	begins := o.requests == 0 || now.Sub(o.last) >= reportInterval
	o.requests++
	o.last = now
	o.mu.Unlock()
	if begins {
		log.WarnContext(ctx, "spillgate: too many requests for the store at once, local limits decide the excess", "err", err)
	}
}
