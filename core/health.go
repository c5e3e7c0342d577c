package core

import "time"

// Health describes the store of a Limiter.
type Health struct {
	Down  bool      // the store is not called now: the failure modes of the rules decide
	Since time.Time // when the last outage began or, if not Down, ended; zero if there was none
	Err   error     // the last failure of the store, if any
	Calls int       // calls of the store in flight

	// Overloads counts the requests that this process decided from its own memory, whatever the failure modes of their
	// rules, because too many calls of a healthy store were in flight. A request that may wait counts once for each such
	// call. OverloadedAt is the time of the last such request; zero if there was none.
	Overloads    uint64
	OverloadedAt time.Time

	// Keys, Shared and Held come from MemoryStats if the store has a method Stats() MemoryStats; otherwise they are 0.
	Keys, Shared, Held int

	// Via says how the store makes decisions now, if it has a method Via() string. A redisstore uses "functions", and
	// "scripts" if Redis does not let it use functions; scripts are slower.
	Via string

	// Waiting is how many requests are sleeping until their turn, in Limiter.Wait and in adapters.
	Waiting int

	// Leases describes the store's leases, if the store has a method LeaseStats() LeaseStats.
	Leases LeaseStats
}

// StoreHealth describes the store of l. A MemoryStore never fails.
func (l *Limiter) StoreHealth() Health {
	if _, err := l.current(); err != nil {
		return Health{}
	}
	b := l.store.breaker.State(time.Now())
	h := Health{Down: b.Withholds, Since: b.Since, Err: b.Err, Calls: b.Calls, Waiting: int(l.waiting.all.Load())}
	if last := l.store.overload.last.Load(); last != nil {
		h.Overloads, h.OverloadedAt = l.store.overload.requests.Load(), *last
	}
	if s, ok := l.store.store.(interface{ Stats() MemoryStats }); ok {
		stats := s.Stats()
		h.Keys, h.Shared, h.Held = stats.Keys, stats.Shared, stats.Held
	}
	if s, ok := l.store.store.(interface{ Via() string }); ok {
		h.Via = s.Via()
	}
	if s, ok := l.store.store.(interface{ LeaseStats() LeaseStats }); ok {
		h.Leases = s.LeaseStats()
	}
	return h
}

// LeaseStats describes the leases of a store in this process.
type LeaseStats struct {
	Keys      int    // keys that are leased now
	Decisions uint64 // requests that were decided from leases alone
	Returned  uint64 // requests charged ahead that were returned unused, or that had drained when they were to be returned
}
