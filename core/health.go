package core

import "time"

// Health describes the store of a Limiter.
type Health struct {
	Open  bool      // calls are withheld now: decisions are made by the failure modes of the rules
	Since time.Time // when the last outage began or, if not Open, ended; zero if there was none
	Err   error     // the last failure of the store, if any
	Calls int       // calls of the store in flight

	// Keys, Shared and Held are those of MemoryStats, if the store has a method Stats() MemoryStats, else 0.
	Keys, Shared, Held int

	// Leases is what the store has leased, if it has a method LeaseStats() LeaseStats.
	Leases LeaseStats
}

// health returns the state at now.
func (b *breaker) health(now time.Time) Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := Health{Open: b.withholds(now), Since: b.since, Err: b.err, Calls: b.calls}
	if b.down() && !h.Open {
		h.Since = b.resume // the next call is let through
	}
	return h
}
