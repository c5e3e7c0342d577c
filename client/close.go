package client

import (
	"math/rand/v2"
	"time"
)

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
}

// open counts c as answered in the trial, if c was sent after b had been closed.
func (b *budget) open(c *call) {
	if c.sent > b.closedAt {
		b.denials = 0
		b.answered()
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
