package telemetry

import (
	"sync/atomic"
	"time"
)

// A clock counts the seconds since the start, from 1, by the monotonic clock. Decisions carry the time of their store,
// which may differ from the time of this process. But as long as the store's second stays the same, the clock keeps its
// own second. That avoids reading the system clock for each decision.
type clock struct {
	start   time.Time
	store   atomic.Int64 // Unix time of the store
	current atomic.Int64
}

// elapsed reads the system clock. It returns the time since the full second before the start, so that its seconds begin
// when the wall clock's do. It never returns 0.
func (c *clock) elapsed() time.Duration {
	return time.Since(c.start) + time.Duration(c.start.Nanosecond()) + 1
}

// now reads the system clock and returns the second.
func (c *clock) now() int64 { return secondOf(c.elapsed()) }

func secondOf(elapsed time.Duration) int64 { return int64(elapsed/time.Second) + 1 }

// passed reports whether at least d, a number of whole seconds, has passed since an instant. It reads the system clock
// only if the current second does not decide that.
func (c *clock) passed(since, d time.Duration, second int64) bool {
	return second >= secondOf(since+d) && c.elapsed() >= since+d
}

// second returns the current second and reports whether it has changed since the last call. store is the time that a
// decision carries, or the zero time.
func (c *clock) second(store time.Time) (second int64, turned bool) {
	at := store.Unix()
	if c.store.Load() == at && !store.IsZero() {
		return c.current.Load(), false
	}
	now := c.now()
	turned = c.current.Swap(now) != now
	c.store.Store(at)
	return now, turned
}

// time returns the wall clock's time at which a second begins.
func (c *clock) time(second int64) time.Time {
	return c.start.Truncate(time.Second).Add(time.Duration(second-1) * time.Second)
}
