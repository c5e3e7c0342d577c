package client

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	// overdue is how long other requests wait for a request in flight if no response names its budget.
	overdue = 10 * time.Second

	// shortPause is the pause if nothing remains and the server does not say for how long, or names an instant in the
	// past. The pause doubles with each further denial, up to longPause.
	shortPause = time.Second
	longPause  = time.Minute
)

// A budget has everything that is known about one limit of the server. The zero value is open and not counted.
type budget struct {
	name   budgetName
	status int // of the last response that named it

	// What remains, if counted.
	counted   bool
	limit     int64 // 0 if not known
	low       lowest
	inFlight  int64     // requests sent and not answered, except overdue ones
	forgotten uint64    // calls sent up to here are no longer in inFlight
	heard     time.Time // the last sending or response

	window // when the budget is renewed

	promise  time.Time // the instant that the server announced; nothing is sent before it
	until    time.Time // promise and jitter
	closedAt uint64    // when the last response closed it, on the clock of the account
	denials  int       // consecutive denials of requests that were sent after the budget had been closed

	trial
	queue
}

func (b *budget) idle() bool { return b.inFlight == 0 && b.head == nil }

// A pause says why a call has to wait, and until when. The zero value means that it need not wait.
type pause struct {
	wait  bool
	until time.Time // when to check again; zero if only a response can change the result
	known time.Time // the instant that was announced; zero if none was
}

// checkInTurn returns whether and why c has to wait for b. Calls that arrived earlier go first.
func (b *budget) checkInTurn(c *call, now time.Time) pause {
	if b.head == nil && !b.trying && b.free() > b.limit/5 { // the common case: neither closed nor paced
		return pause{}
	}
	p := b.check(c, now)
	if b.earlier(c) {
		return pause{wait: true, known: p.known}
	}
	return p
}

// check returns whether and why c has to wait for b, regardless of the queue.
func (b *budget) check(c *call, now time.Time) pause {
	if start := b.opens(c); now.Before(start) {
		return pause{wait: true, until: start, known: b.promise}
	}
	switch {
	case b.trying && b.out >= max(b.width, 1), !b.trying && b.free() <= 0:
		return b.awaitResponse(now)
	case b.trying:
		return pause{}
	}
	return b.pace(c, now)
}

// opens returns when b opens for c. It omits the jitter if that would make c too late.
func (b *budget) opens(c *call) time.Time {
	if c.limit.Before(b.until) {
		return b.promise
	}
	return b.until
}

// free returns how many more requests can be sent without a denial, if no other client uses the limit and the server has
// counted no request that ended without a response: what remained after the last answered request, minus the requests in
// flight.
func (b *budget) free() int64 {
	if !b.counted {
		return math.MaxInt64
	}
	return b.low.least() - b.inFlight
}

// awaitResponse returns a pause until a response arrives, at most until the requests in flight are overdue.
func (b *budget) awaitResponse(now time.Time) pause {
	if next := b.heard.Add(overdue); now.Before(next) {
		return pause{wait: true, until: next}
	}
	return pause{}
}

// pace returns the pause for c in the last fifth of a window, whose requests are sent evenly over the rest of it. While
// the kind is unknown, the last fifth waits for the responses in flight.
func (b *budget) pace(c *call, now time.Time) pause {
	if !b.paced(c, now) || b.kind == unknown && b.inFlight == 0 {
		return pause{}
	}
	if b.kind == unknown {
		return b.awaitResponse(now)
	}
	if next := b.pacedAt(1, b.free()); now.Before(next) {
		return pause{wait: true, until: next, known: next}
	}
	return pause{}
}

// paced reports whether c is among the last fifth of a budget that may be a window. It reports false in the last part
// of the window, which is as long as one request takes to be available again, because for a token bucket, Reset may
// mean only that.
func (b *budget) paced(c *call, now time.Time) bool {
	return !c.noPace && b.kind != moving && b.free() <= b.limit/5 && b.renewed.Sub(now) > max(time.Second, b.each)
}

// isPacedWindow reports whether b is a window that is being paced.
func (b *budget) isPacedWindow(c *call, now time.Time) bool {
	return b.kind == fixed && b.paced(c, now)
}

// expect returns the announced instant before which c will not be sent; zero if there is none ahead.
func (b *budget) expect(c *call, now time.Time) time.Time {
	if now.Before(b.promise) {
		return b.promise
	}
	if !b.isPacedWindow(c, now) {
		return time.Time{}
	}
	left := b.low.least() // an upper bound: if the requests in flight are counted already, some are not among the last fifth
	turn := c.turn - max(left-b.limit/5, 0)
	next := b.pacedAt(turn, left)
	if turn < 1 || !next.After(now) {
		return time.Time{}
	}
	return next
}

// late returns the error for a call that waits for b.
func (b *budget) late(now, known time.Time) error {
	if known.IsZero() {
		return &LimitedError{Until: now}
	}
	return &LimitedError{Until: known, Status: b.status, Policy: b.name.name}
}

// enter counts c, which is being sent.
func (b *budget) enter(c *call, now time.Time) {
	switch {
	case b.trying:
		b.trial.enter(c.sent)
	case b.free() <= 0: // the requests in flight are overdue
		b.inFlight, b.forgotten = 0, c.sent-1
	}
	if b.isPacedWindow(c, now) {
		b.last = now
	}
	b.inFlight++
	b.heard = now
}

// leave ends the count of c, which is no longer in flight.
func (b *budget) leave(c *call, now time.Time) {
	if c.sent > b.forgotten {
		b.inFlight--
	}
	b.trial.leave(c.sent)
	b.heard = now
}

// observe updates b from its state in a response. After a denial, denied closes b.
func (b *budget) observe(c *call, s *state, now time.Time, rep *report, clock uint64) {
	b.status = rep.status
	if !rep.denied && c.sent > b.closedAt {
		b.denials = 0 // they are not consecutive
	}
	if b.limit = max(b.limit, s.left); s.limit > 0 {
		b.limit = s.limit
	}
	b.learn(s, b.limit, now, c.sent, clock)
	b.counted = !s.otherUnit
	b.low.add(s.left, c.sent, clock)
	switch {
	case s.left > 0 || s.otherUnit && !s.hasReset && !rep.denied:
		if !s.otherUnit {
			b.width = 0 // the response says what remains, so it ends the trial
		}
		b.open(c)
	case rep.denied:
	case s.wait > 0:
		b.close(now, s.wait, rep.status, clock)
	default:
		b.close(now, shortPause, rep.status, clock)
	}
}

// denied closes b after a denial of c. wait is the time that the server announced; it is 0 or less if the server
// announced none, or an instant in the past. Several denials count as one if their requests were in flight at the same
// time.
func (b *budget) denied(c *call, now time.Time, wait time.Duration, status int, clock uint64) {
	if c.sent > b.closedAt {
		b.denials++
	}
	doublings := b.denials - 2 // after the second consecutive denial: the server did not keep its promise
	if wait <= 0 {
		doublings = max(b.denials-1, 0)
	}
	if doublings >= 0 {
		wait = max(wait, min(shortPause<<min(doublings, 10), longPause))
	}
	b.close(now, wait, status, clock)
	b.width = 1
}

// close closes b for wait and a jitter, and then begins a trial. It never shortens a wait.
func (b *budget) close(now time.Time, wait time.Duration, status int, clock uint64) {
	wait = min(wait, longestPromise)
	if promise := now.Add(wait); promise.After(b.promise) {
		b.promise, b.until = promise, promise.Add(min(jitter(wait), longestPromise-wait))
	}
	b.status, b.closedAt = status, clock
	b.begin(clock)
	for c := b.head; c != nil; c = c.behind {
		if b.promise.After(c.limit) {
			c.wakeUp() // c would wait too long, so it fails now
		}
	}
}

// jitter returns a random delay, so that many clients do not come back at the same instant.
func jitter(wait time.Duration) time.Duration {
	most := min(wait/10, 5*time.Second)
	if most <= 0 {
		return 0
	}
	return rand.N(most)
}

// open counts c as answered in the trial, if c was sent after b had been closed.
func (b *budget) open(c *call) {
	if c.sent > b.closedAt {
		b.denials = 0
		b.answered()
	}
}

// admitted counts c as answered in the trial of b, although the response did not name b.
func (b *budget) admitted(c *call) {
	if c.sent > b.closedAt {
		b.counted, b.width = false, max(b.width, 1)
		b.open(c)
	}
}

// A queue holds the calls that wait for one budget, in the order of their arrival.
type queue struct{ head, tail *call }

// A call is one request, as its budgets see it.
type call struct {
	route  *route
	ticket uint64    // when it arrived, on the clock of the account: calls are sent in this order
	sent   uint64    // when it was last sent, on the same clock; 0 if never
	limit  time.Time // when its wait must end
	noPace bool

	// budgets are the budgets that the call needs or, while it is in flight, the budgets that count it.
	budgets []*budget
	array   [2 + maxStates]*budget
	trying  bool // it is sent to learn the budgets of its route, although its assumed budgets are closed

	place
}

// A place is the place of a call in a queue.
type place struct {
	in       *budget // nil if the call does not wait
	before   *call
	behind   *call
	turn     int64     // 1 is the first
	until    time.Time // when the first call of a queue checks again
	admitted bool
	wake     chan struct{}
}

// wakeUp makes c check again whether it may be sent.
func (c *call) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// wakeAt makes c, which is the first, check again at until.
func (c *call) wakeAt(until time.Time) {
	if !c.until.Equal(until) {
		c.until = until
		c.wakeUp()
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
