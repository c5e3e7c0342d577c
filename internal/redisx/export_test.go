package redisx

import (
	"strings"
	"testing"
	"time"
)

// Shift stops the clocks, if they are not, and sets them to d later.
func (s *Store) Shift(d time.Duration) {
	at := time.Now()
	if now := s.clock.Load(); now != nil {
		at = (*now)()
	}
	at = at.Add(d)
	s.SetClock(func() time.Time { return at })
}

// SetLocal stops the clock of this process at t.
func (s *Store) SetLocal(t time.Time) {
	now := func() time.Time { return t }
	s.wall.Store(&now)
}

// SetBlockSize has scripts keep blocks of so many entries until the test ends.
func SetBlockSize(t *testing.T, entries string) {
	original := theScript
	t.Cleanup(func() { theScript = original })
	source := read(luaFiles...)
	changed := strings.Replace(source, "local maxEntries = 64", "local maxEntries = "+entries, 1)
	if source == changed {
		t.Fatal("the script does not say how large blocks are")
	}
	theScript = newScript(changed)
}

// LeasesEnded reports whether nothing is leased, asked for or to be given back.
func (s *Store) LeasesEnded() bool {
	t := s.leases.Load()
	return t == nil || t.Ended() && len(s.batcher.running) == 0
}

// GrantsInFlight returns how many grants are in flight.
func (s *Store) GrantsInFlight() int {
	if t := s.leases.Load(); t != nil {
		return t.GrantsInFlight()
	}
	return 0
}

// SetVersion has stores use a library that differs from this version's library by a comment, until the test ends.
func SetVersion(t *testing.T, version string) {
	original := theScript
	t.Cleanup(func() { theScript = original })
	theScript = newScript(read(luaFiles...) + strings.Repeat("-- "+version+"\n", len(version)))
}
