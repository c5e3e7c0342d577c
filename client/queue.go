package client

import "time"

// A queue holds the calls that wait for one budget, in the order of their arrival.
type queue struct{ head, tail *call }

// A place is the place of a call in a queue.
type place struct {
	in        *budget // nil if the call does not wait
	before    *call
	behind    *call
	turn      int64     // 1 is the first
	until     time.Time // when the first call of a queue checks again
	limit     time.Time // when its wait must end
	admitted  bool
	wake      chan struct{}
	announced bool // OnWait was called
}

// wakeUp makes c check again whether it may be sent.
func (c *call) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// add puts c behind all that arrived before it.
func (b *budget) add(c *call) {
	after := b.tail
	for after != nil && after.ticket > c.ticket {
		after = after.before
	}
	c.in, c.before, c.turn = b, after, 1
	if after == nil {
		c.behind, b.head = b.head, c
	} else {
		c.turn = after.turn + 1
		c.behind, after.behind = after.behind, c
	}
	if c.behind == nil {
		b.tail = c
	} else {
		c.behind.before = c
	}
}

// remove takes c out.
func (b *budget) remove(c *call) {
	if c.before == nil {
		b.head = c.behind
	} else {
		c.before.behind = c.behind
	}
	if c.behind == nil {
		b.tail = c.before
	} else {
		c.behind.before = c.before
	}
	c.in, c.before, c.behind, c.until = nil, nil, nil, time.Time{}
}

// earlier reports whether another call waits for b that arrived before c.
func (b *budget) earlier(c *call) bool { return b.head != nil && b.head.ticket < c.ticket }

// wakeAt makes c, which is the first, check again at until.
func (c *call) wakeAt(until time.Time) {
	if !c.until.Equal(until) {
		c.until = until
		c.wakeUp()
	}
}

// number numbers the calls that wait, and wakes the calls whose turn would come too late.
func (b *budget) number(c *call, now time.Time) {
	if !b.isPacedWindow(c, now) {
		return
	}
	turn := int64(1)
	for ; c != nil; c = c.behind {
		c.turn = turn
		if b.expect(c, now).After(c.limit) {
			c.wakeUp()
		}
		turn++
	}
}
