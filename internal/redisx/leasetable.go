package redisx

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
)

// A leaseTable holds the leases of a store by key. A key gets an entry when it is asked for a second time within one Lease, and
// loses it after about two Leases without a request.
type leaseTable struct {
	store  *Store
	seed   maphash.Seed
	begun  time.Time // instants are nanoseconds since then
	asked  askedPairs
	shards [64]leaseShard

	keys     atomic.Int64
	returned atomic.Uint64
	timeout  atomic.Int64 // the longest that a Take had until its deadline, in nanoseconds; a grant gets as much

	sweeping sync.Mutex // held by a sweep

	mu     sync.Mutex // of what follows
	known  []*terms
	unused []unused      // of leases whose entry is gone
	timer  *time.Timer   // of the next sweep; nil before the first
	armed  bool          // timer is running
	every  time.Duration // what timer was set to
}

// A leaseShard holds the entries of some hashes, with a lock of its own. Of two keys with the same hash one is leased.
type leaseShard struct {
	mu        sync.Mutex
	entries   map[uint64]*leaseEntry
	decisions uint64 // made from its leases
	_         [40]byte
}

// A leaseEntry is the lease of one key.
type leaseEntry struct {
	key   string
	terms *terms // nil once the entry is out of the table
	lease
	refill, reset int64 // when the first limit has one more, and all, by the last reply of the store
}

// after is what the store reported for a limit after a grant or a request.
type after struct {
	stored        uint32 // requests left in the store
	refill, reset int64
}

// terms are what a lease was granted for.
type terms struct {
	limits []core.Limit
	length int64 // Lease in nanoseconds
}

// fit reports whether t equals the terms of a claim.
func (t *terms) fit(c *core.Claim) bool {
	return t.length == int64(c.Lease) && slices.Equal(t.limits, c.Limits)
}

// charge reports whether t and c charge the same limits: then a call for c can give back what was granted on t.
func (t *terms) charge(c *core.Claim) bool {
	return (&terms{t.limits, int64(c.Lease)}).fit(c)
}

// maxKnown bounds how many terms are kept for entries to share: a tier may return new limits with every request.
const maxKnown = 64

// termsOf returns the terms of a claim. Entries share them.
func (t *leaseTable) termsOf(c *core.Claim) *terms {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range t.known {
		if known.fit(c) {
			return known
		}
	}
	own := &terms{slices.Clone(c.Limits), int64(c.Lease)}
	if len(t.known) < maxKnown {
		t.known = append(t.known, own)
	}
	return own
}

func newLeaseTable(s *Store) *leaseTable {
	t := &leaseTable{store: s, seed: maphash.MakeSeed(), begun: time.Now()}
	for i := range t.shards {
		t.shards[i].entries = make(map[uint64]*leaseEntry)
	}
	return t
}

// now returns the current instant, which is never 0.
func (t *leaseTable) now() int64 { return int64(time.Since(t.begun)) + 1 }

func (t *leaseTable) shard(hash uint64) *leaseShard { return &t.shards[hash%uint64(len(t.shards))] }

// find returns the entry of a key, or nil. The caller has locked s.
func (s *leaseShard) find(hash uint64, key []byte) *leaseEntry {
	if e := s.entries[hash]; e != nil && e.key == string(key) {
		return e
	}
	return nil
}

// add adds an entry for a key, unless there is one with its hash. The caller has locked s.
func (t *leaseTable) add(s *leaseShard, hash uint64, key []byte, c *core.Claim) *leaseEntry {
	if s.entries[hash] != nil {
		return nil
	}
	e := &leaseEntry{key: string(key), terms: t.termsOf(c)}
	s.entries[hash] = e
	t.keys.Add(1)
	t.arm(c.Lease)
	return e
}

// open adds an entry for the key of a claim if it was asked for within a Lease, and reports whether there is one.
func (t *leaseTable) open(hash uint64, c *core.Claim) bool {
	if !t.asked.within(hash, t.now(), int64(c.Lease)) {
		return false
	}
	var buf [256]byte
	key := t.store.layout.appendKey(buf[:0], c.Rule, c.Key)
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(hash, key) != nil || t.add(s, hash, key, c) != nil
}

// remove removes an entry, whose portions have ended. The caller has locked s.
func (t *leaseTable) remove(s *leaseShard, hash uint64, e *leaseEntry) {
	delete(s.entries, hash)
	e.terms = nil
	t.keys.Add(-1)
}

// LeaseStats describes the leases of s.
func (s *Store) LeaseStats() core.LeaseStats {
	if t := s.leases.Load(); t != nil {
		return t.stats()
	}
	return core.LeaseStats{}
}

// stats returns the counts over all shards.
func (t *leaseTable) stats() core.LeaseStats {
	all := core.LeaseStats{Keys: int(t.keys.Load()), Returned: t.returned.Load()}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		all.Decisions += s.decisions
		s.mu.Unlock()
	}
	return all
}

// leasable reports whether requests of c may be decided from a lease.
func leasable(c *core.Claim) bool {
	if c.Lease <= 0 || c.DryRun || c.Hold || c.Cost < 0 || len(c.Limits) == 0 {
		return false
	}
	for i := range c.Limits {
		l := algorithm.Limit{Algorithm: algorithm.Algorithm(c.Limits[i].Algorithm), Ban: int64(c.Limits[i].Ban)}
		if !l.Leasable() {
			return false
		}
	}
	return true
}

// costOf returns what c costs.
func costOf(c *core.Claim) int64 { return int64(max(c.Cost, 1)) }
