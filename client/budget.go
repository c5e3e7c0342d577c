package client

import (
	"math"
	"strings"
	"time"
)

const (
	// overdue is how long a request may be in flight without news of its budget, before others no longer wait for it.
	overdue = 10 * time.Second

	// longestPromise is how long a response can close a budget, until one request tries.
	longestPromise = time.Hour

	// shortPause is kept where nothing remains and the server does not say for how long, or names an instant that is past.
	// It grows with each refusal that follows, to longPause.
	shortPause = time.Second
	longPause  = time.Minute
)

// A budget is what is known of one limit of the server. The zero value is open and not counted.
type budget struct {
	name   budgetName
	status int // of the last response that told of it

	// What remains, if counted.
	counted   bool
	limit     int64 // 0 if not known
	low       lowest
	inFlight  int64     // sent and not answered, without those that were overdue
	forgotten uint64    // calls sent up to here are not in inFlight any more
	heard     time.Time // the last sending or response

	window // when it is renewed

	promise  time.Time // nothing is sent before what the server announced
	until    time.Time // promise and jitter
	closedAt uint64    // when the last response closed it, on the clock of the Transport
	refusals int       // in a row, of requests that were sent after it had been closed

	trial
	queue
}

// budgetName tells the budgets of an account apart.
type budgetName struct {
	family family
	line   int8 // of several lines of the same field
	name   string
}

func (n budgetName) clone() budgetName {
	n.name = strings.Clone(n.name)
	return n
}

func (b *budget) idle() bool { return b.inFlight == 0 && b.head == nil }

// A pause says why a call has to wait. Its zero value lets the call go.
type pause struct {
	wait  bool
	until time.Time // when to look again; zero if only a response can change something
	known time.Time // the instant that was announced; zero if none was
}

// checkInTurn says whether c can be sent now, as far as b is concerned. Calls that arrived earlier go first.
func (b *budget) checkInTurn(c *call, now time.Time) pause {
	if b.head == nil && !b.trying && b.free() > b.limit/5 { // mostly: not closed, and not to be spread
		return pause{}
	}
	p := b.check(c, now)
	if b.earlier(c) {
		return pause{wait: true, known: p.known}
	}
	return p
}

// check says the same as if c were the first.
func (b *budget) check(c *call, now time.Time) pause {
	if now.Before(b.until) {
		if start := b.opens(c); now.Before(start) {
			return pause{wait: true, until: start, known: b.promise}
		}
	}
	switch {
	case b.trying && b.out >= max(b.width, 1), !b.trying && b.free() <= 0 && b.inFlight > 0:
		return b.news(now)
	case b.trying:
		return pause{}
	}
	return b.pace(c, now)
}

// opens returns when b is open for c: without the jitter, if that would be too late for c.
func (b *budget) opens(c *call) time.Time {
	if c.limit.Before(b.until) {
		return b.promise
	}
	return b.until
}

// free returns how many more requests can be sent so that none is refused, if nobody else uses the limit: what remained
// after the last one that was answered, without those in flight.
func (b *budget) free() int64 {
	if !b.counted {
		return math.MaxInt64
	}
	return b.low.least() - b.inFlight
}

// news waits for a response, but not for requests that are overdue: those the server has counted long ago.
func (b *budget) news(now time.Time) pause {
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
	case b.free() <= 0: // those in flight are overdue
		b.inFlight, b.forgotten = 0, c.sent-1
	}
	b.spread(c, now)
	b.inFlight++
	b.heard = now
}

// leave ends what enter has begun.
func (b *budget) leave(c *call, now time.Time) {
	if c.sent > b.forgotten {
		b.inFlight--
	}
	b.trial.leave(c)
	b.heard = now
}
