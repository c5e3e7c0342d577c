package client

import (
	"math/rand/v2"
	"time"
)

// close lets nothing pass for wait and a jitter, and then begins a trial. It never shortens.
func (b *budget) close(now time.Time, wait time.Duration, status int, clock uint64) {
	wait = min(wait, longestPromise)
	if promise := now.Add(wait); promise.After(b.promise) {
		b.promise, b.until = promise, promise.Add(min(jitter(wait), longestPromise-wait))
	}
	b.status, b.closedAt = status, clock
	b.begin(clock)
	for c := b.head; c != nil; c = c.behind {
		if b.promise.After(c.limit) {
			c.wakeUp() // it need not wait any longer
		}
	}
}

// refuse closes b after a refusal of c. Wait is what the server announced, 0 or less if nothing or an instant that is
// past. Requests that were in flight together are one refusal.
func (b *budget) refuse(c *call, now time.Time, wait time.Duration, status int, clock uint64) {
	if c.sent > b.closedAt {
		b.refusals++
	}
	doublings := b.refusals - 2 // a promise that was kept to, and broken
	if wait <= 0 {
		doublings = max(b.refusals-1, 0)
	}
	if doublings >= 0 {
		wait = max(wait, min(shortPause<<min(doublings, 10), longPause))
	}
	b.close(now, wait, status, clock)
}

// open tells the trial that c was not refused, if c was sent after b had been closed.
func (b *budget) open(c *call) {
	if c.sent > b.closedAt {
		b.refusals = 0
		b.answered()
	}
}

// jitter is random, so that many clients do not come back at the same instant.
func jitter(wait time.Duration) time.Duration {
	most := min(wait/10, 5*time.Second)
	if most <= 0 {
		return 0
	}
	return rand.N(most)
}
