package redisx

import (
	"context"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Shift stops the clocks, if they are not, and sets them to d later.
func (s *Store) Shift(d time.Duration) {
	at := time.Now()
	if now := s.decider.server.clock.Load(); now != nil {
		at = (*now)()
	}
	at = at.Add(d)
	s.SetClock(func() time.Time { return at })
}

// SetLocal stops the clock of this process at t.
func (s *Store) SetLocal(t time.Time) {
	now := func() time.Time { return t }
	s.decider.layout.wall.Store(&now)
}

// DecideInParts makes s decide requests identity by identity, or pair by pair, as on a Redis Cluster.
func (s *Store) DecideInParts(byPair bool) {
	s.decider.server.routing.Store(uint32(map[bool]routing{false: byIdentity, true: byKey}[byPair]))
}

// ChargeAhead charges requests of a claim ahead, at most want.
func (s *Store) ChargeAhead(c core.Claim, want int64) (charged int64, err error) {
	c.Cost = int(want)
	charged, _, err = s.decider.Lend(context.Background(), c, nil)
	return charged, err
}

// LeasesEnded reports whether all leases have ended and all calls are done, so that all unused requests have been returned.
func (s *Store) LeasesEnded() bool {
	return s.leases.Ended() && s.isIdle()
}

// isIdle reports whether no call is in flight or waits.
func (s *Store) isIdle() bool {
	queues := s.decider.queues
	queues.mu.Lock()
	defer queues.mu.Unlock()
	for _, q := range queues.byRoute {
		if q.load > 0 || len(q.inFlight) > 0 {
			return false
		}
	}
	return len(s.decider.server.running) == 0
}

func (s *Store) RefillsInFlight() int { return s.leases.RefillsInFlight() }

// SetVersion makes s use a library that differs from this version's library by a comment.
func (s *Store) SetVersion(version string) {
	s.decider.server.script = newScript(read(luaFiles()...) + strings.Repeat("-- "+version+"\n", len(version)))
}
