package client

import (
	"math"
	"time"
)

const (
	// overdue is how long other requests wait for a request in flight if no response names its budget.
	overdue = 10 * time.Second

	// longestPromise bounds how long a response can close a budget. After that, one request is sent as a trial.
	longestPromise = time.Hour

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
	closedAt uint64    // when the last response closed it, on the clock of the Transport
	denials  int       // consecutive denials of requests that were sent after the budget had been closed

	trial
	queue
}

// A budgetName identifies a budget of an account.
type budgetName struct {
	family family
	line   int8 // the index of the field line, where a field has one number per line
	name   string
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

// free returns how many more requests can be sent without a denial, if no other client uses the limit: what remained
// after the last answered request, minus the requests in flight.
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

// enter counts c, which is being sent.
func (b *budget) enter(c *call, now time.Time) {
	switch {
	case b.trying:
		b.trial.enter(c)
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
	b.trial.leave(c)
	b.heard = now
}
