package memory

import (
	"sync/atomic"
	"time"
)

// recheck is how many microseconds pass between two readings of the wall clock.
const recheck = 100_000

// A clock reads instants in microseconds since the Unix epoch. They follow the monotonic clock from the wall time at
// which the store was made, so states drain by elapsed time, and instants never go back. The clock also reads the wall
// clock every recheck. If the wall clock was set, or the machine was suspended, its offset from the instants changes.
type clock struct {
	now     func() time.Time     // nil: the clock of the machine
	start   time.Time            // in whole microseconds
	epoch   int64                // start, as an instant
	checked atomic.Int64         // when the wall clock was read last
	wall    atomic.Pointer[wall] // nil until the wall clock is set
}

// A wall converts instants to wall time since the wall clock was set.
type wall struct {
	at     int64
	time   time.Time // with a monotonic reading
	offset int64     // how far the wall clock is ahead of instants, in microseconds
	first  int64     // no later instant has a time from before the clock was first set
}

// maxDelay is the largest number of microseconds between reading an instant and calling Time for it.
const maxDelay = 10_000_000

// begin starts c.
func (c *clock) begin(now func() time.Time) {
	c.now = now
	c.start = time.Now()
	c.start = c.start.Add(-time.Duration(c.start.Nanosecond() % 1000))
	c.epoch = c.start.UnixMicro()
	c.checked.Store(c.epoch)
}

// read returns the instant that is now, and how far the wall clock is ahead of instants.
func (c *clock) read() (now, offset int64) {
	if c.now != nil {
		return c.now().UnixMicro(), 0
	}
	now = c.epoch + time.Since(c.start).Microseconds()
	if now-c.checked.Load() > recheck {
		c.check(now, time.Now())
	}
	if w := c.wall.Load(); w != nil {
		offset = w.offset
	}
	return now, offset
}

// check updates the offset if the wall clock was set since the last reading. It ignores a difference of up to a
// millisecond, which may be the time between the readings of both clocks.
func (c *clock) check(now int64, t time.Time) {
	c.checked.Store(now)
	// t is moved so that its monotonic reading is now's, and then up to a whole microsecond: else the start of a window
	// would be rounded up to the next second.
	passed := time.Duration(now-c.epoch) * time.Microsecond
	t = t.Add(passed - t.Sub(c.start))
	t = t.Add(time.Duration(999 - (t.Nanosecond()+999)%1000))
	offset := t.UnixMicro() - now
	w := &wall{at: now, time: t, offset: offset, first: now + maxDelay}
	if before := c.wall.Load(); before != nil {
		w.first, offset = before.first, offset-before.offset
	}
	if offset < -1000 || offset > 1000 {
		c.wall.Store(w)
	}
}

// ClockWasSet reports whether the wall clock was set, so that Time returns more than the microseconds of an instant.
func (c *clock) ClockWasSet() bool { return c.wall.Load() != nil }

// Time returns the wall time of an instant. Instant converts it back, whatever happens to the wall clock. Only after
// the wall clock was set does the time need a monotonic reading for that, which takes longer.
func (c *clock) Time(at int64) time.Time {
	if w := c.wall.Load(); w != nil {
		return w.time.Add(time.Duration(at-w.at) * time.Microsecond)
	}
	return time.UnixMicro(at)
}

// Instant returns the instant for which Time has returned t. If t has lost its monotonic reading, the result may be off
// by the amount by which the wall clock was set.
func (c *clock) Instant(t time.Time) int64 {
	w, micros := c.wall.Load(), t.UnixMicro()
	switch {
	case c.now != nil:
		return micros
	case t != t.Round(0): // not Equal, which ignores the monotonic reading
		return c.epoch + t.Sub(c.start).Microseconds()
	case w != nil && micros >= w.first:
		return micros - w.offset
	}
	return micros
}
