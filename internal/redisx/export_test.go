package redisx

import (
	"strings"
	"testing"
	"time"
)

// SetLocal makes the clock of this process go from t on.
func (s *Store) SetLocal(t time.Time) { s.local.Store(t.UnixMicro() - time.Now().UnixMicro()) }

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
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.keys.Load() == 0 && len(t.unused) == 0 && !t.armed && len(s.batcher.running) == 0
}

// BetweenSweeps calls f while no sweep runs: what one has taken out of the table counts as charged until it is given back.
func (s *Store) BetweenSweeps(f func()) {
	if t := s.leases.Load(); t != nil {
		t.sweeping.Lock()
		defer t.sweeping.Unlock()
	}
	f()
}

// GrantsInFlight returns how many grants are in flight.
func (s *Store) GrantsInFlight() (n int) {
	t := s.leases.Load()
	for i := range t.shardsOrNone() {
		shard := &t.shards[i]
		shard.mu.Lock()
		for _, e := range shard.entries {
			if e.grantInFlight() != nil {
				n++
			}
		}
		shard.mu.Unlock()
	}
	return n
}

func (t *leaseTable) shardsOrNone() []leaseShard {
	if t == nil {
		return nil
	}
	return t.shards[:]
}

// SetVersion has stores use a library that differs from that of this version by a comment, until the test ends.
func SetVersion(t *testing.T, version string) {
	original := theScript
	t.Cleanup(func() { theScript = original })
	theScript = newScript(read(luaFiles...) + strings.Repeat("-- "+version+"\n", len(version)))
}
