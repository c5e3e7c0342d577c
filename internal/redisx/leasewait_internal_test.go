package redisx

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// busyEntry returns a claim of a store with an entry that is busy, and of which nothing is left.
func busyEntry(t *testing.T) (*Store, core.Claim) {
	s := frozenStore(t)
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100000/d"), Lease: 10 * time.Second}
	for i := 0; i < 100 && s.LeaseStats().Decisions < 8; i++ {
		s.takeOne(t, c)
	}
	s.withEntry(t, func(e *leaseEntry) { e.left = [2]uint32{} })
	return s, c
}

// withEntry calls f with the only entry, of which no grant is in flight, while its shard is locked: sweeps go on after a test.
func (s *Store) withEntry(t *testing.T, f func(*leaseEntry)) {
	t.Helper()
	for s.GrantsInFlight() > 0 {
		time.Sleep(50 * time.Microsecond)
	}
	s.entry(t, f)
}

// entry calls f with the only entry, while its shard is locked.
func (s *Store) entry(t *testing.T, f func(*leaseEntry)) {
	t.Helper()
	found := false
	for i := range s.leases.Load().shardsOrNone() {
		shard := &s.leases.Load().shards[i]
		shard.mu.Lock()
		for _, e := range shard.entries {
			found = true
			f(e)
		}
		shard.mu.Unlock()
	}
	if !found {
		t.Fatal("nothing is leased")
	}
}

func (s *Store) takeOne(t *testing.T, c core.Claim) {
	t.Helper()
	if _, ok := s.TakeLocal([]core.Claim{c}, nil); ok {
		return
	}
	if _, err := s.Take(context.Background(), []core.Claim{c}, nil); err != nil {
		t.Fatal(err)
	}
}

// A request that finds nothing left of a busy lease asks for the next grant and is decided from it, so that others do not ask the store.
func TestARequestOfABusyKeyWaitsForAGrant(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*leaseEntry, *core.Claim)
		waits  bool
	}{
		"busy":            {func(*leaseEntry, *core.Claim) {}, true},
		"large":           {func(_ *leaseEntry, c *core.Claim) { c.Cost = 500 }, true},
		"not busy":        {func(e *leaseEntry, _ *core.Claim) { e.used = [2]uint32{3, 3} }, false},
		"a peek":          {func(_ *leaseEntry, c *core.Claim) { c.Peek = true }, false},
		"grants are late": {func(e *leaseEntry, _ *core.Claim) { e.late = true }, false},
		"during a pause":  {func(e *leaseEntry, _ *core.Claim) { e.pause = pauseSpans }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := busyEntry(t)
			s.withEntry(t, func(e *leaseEntry) { row.change(e, &c) })
			before := s.LeaseStats().Decisions
			p, _, ok := s.takeLease(s.leases.Load(), &c, waitIfBusy, nil)
			if waits := p.grant != nil; ok || waits != row.waits {
				t.Errorf("decided: %v, waits for a grant: %v", ok, waits)
			}
			if s.takeOne(t, c); row.waits && s.LeaseStats().Decisions != before+1 {
				t.Error("not decided from a grant")
			}
		})
	}
}
