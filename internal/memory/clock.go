package memory

import (
	"sync/atomic"
	"time"
)

// recheck is after how many microseconds the wall clock is read again.
const recheck = 100_000

// A clock reads instants in microseconds since the Unix epoch. They follow the monotonic clock from the wall time at which the
// store was made, so that states drain by time that has passed, and they never go back. The wall clock is read now and then: if
// it was set, or the machine was suspended, it is ahead of the instants by another offset from then on.
type clock struct {
	now      func() time.Time     // nil: the clock of the machine
	start    time.Time            // in whole microseconds
	epoch    int64                // start, as an instant
	earliest atomic.Int64         // no later reading is before this instant
	checked  atomic.Int64         // when the wall clock was read last
	wall     atomic.Pointer[wall] // nil until the wall clock is set
}

// A wall is what the wall clock says of an instant since it was set.
type wall struct {
	at     int64
	time   time.Time // with a monotonic reading
	offset int64     // how far the wall clock is ahead of instants, in microseconds
	first  int64     // no later instant has a time from before the clock was first set
}

// maxDelay is how many microseconds after it was read the time of an instant is asked for, at most.
const maxDelay = 10_000_000

// begin sets c going.
func (c *clock) begin(now func() time.Time) {
	c.now = now
	c.start = time.Now()
	c.start = c.start.Add(-time.Duration(c.start.Nanosecond() % 1000))
	c.epoch = c.start.UnixMicro()
	c.checked.Store(c.epoch)
}

// read returns the instant that is now.
func (c *clock) read() int64 {
	if c.now != nil {
		return c.now().UnixMicro()
	}
	now := c.epoch + time.Since(c.start).Microseconds()
	if now-c.checked.Load() > recheck {
		c.check(now, time.Now())
	}
	return max(now, c.earliest.Load())
}

// check takes note of the wall clock, if it was set since it was read last. Readings a millisecond off are taken for the time
// between the readings of both clocks.
func (c *clock) check(now int64, t time.Time) {
	c.checked.Store(now)
	// t is moved so that its monotonic reading is now's, and then up to a whole microsecond: else the turn of a window
	// would be rounded up to the next second.
	passed := time.Duration(now-c.epoch) * time.Microsecond
	t = t.Add(passed - t.Sub(c.start))
	t = t.Add(time.Duration(999 - (t.Nanosecond()+999)%1000))
	offset := t.UnixMicro() - now
	if before := c.offset(); offset-before <= 1000 && before-offset <= 1000 {
		return
	}
	w := &wall{at: now, time: t, offset: offset, first: now + maxDelay}
	if before := c.wall.Load(); before != nil {
		w.first = before.first
	}
	c.wall.Store(w)
}

// readAfter returns an instant that no earlier reading has, and that no later one is before unless the clock was replaced.
func (c *clock) readAfter() int64 {
	after := c.read() + 1
	for {
		earliest := c.earliest.Load()
		if earliest >= after || c.earliest.CompareAndSwap(earliest, after) {
			return after
		}
	}
}

// offset returns how far the wall clock is ahead of instants.
func (c *clock) offset() int64 {
	if w := c.wall.Load(); w != nil {
		return w.offset
	}
	return 0
}

// time returns what the wall clock says at an instant. instant finds that again, whatever happens to the wall clock. Only once
// that was set does a time need a monotonic reading for it: to add one takes longer.
func (c *clock) time(at int64) time.Time {
	if w := c.wall.Load(); w != nil {
		return w.time.Add(time.Duration(at-w.at) * time.Microsecond)
	}
	return time.UnixMicro(at)
}

// instant returns the instant for which time has returned t. A time that has lost its monotonic reading since may be off by what
// the wall clock was set.
func (c *clock) instant(t time.Time) int64 {
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
