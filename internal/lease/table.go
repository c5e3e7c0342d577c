// Package lease decides requests of busy keys in memory: a process charges requests ahead in a store, uses them, and
// returns the rest. The store never charges more than the limits.
//
// A process charges requests ahead rather than holding them (core.Claim.Hold). A hold does not drain, it counts in each
// window until it ends, and it outlives its process by a minute. So other processes' holds would deny requests below the
// rate, with a Retry-After that is only a hint.
//
//	t := lease.New(store)
//	results, ok := t.TakeLocal(claims, nil)
//	if !ok {
//		results, lasts, err = t.Take(ctx, claims, nil)
//	}
//
// A key that is used again within the Lease of its rule gets an entry in a Table (table.go). The entry's lease
// (lease.go: a state machine, without clock or lock) has the requests that were charged ahead. TakeLocal decides from
// the lease (take.go), and asks for the next grant when little is left (grant.go). The store decides everything else
// (rest.go), in a call that also returns what this process has leased of the same keys. A timer returns what else is
// unused, and a refund puts requests back into their lease (return.go).
//
// Two verbs say where requests go: a lease returns unused requests to the store, and a request puts back into its lease
// what it has taken and does not need.
package lease

import (
	"context"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/compiled"
)

// A Store decides requests, and can charge requests ahead.
type Store interface {
	// Lend first returns the Unused of the loans to their limits. Then it decides claims, if there are any, as core.Store
	// does, and appends their results to dst. Then it charges ahead what the loans want, at most half of what remains.
	//
	// If there are claims, there are either no loans or one loan for each claim. If there are no claims, the loans are
	// independent of each other. Lend sets the outcome in the loans even if it returns an error. lasts reports whether
	// the results are a denial that the caller may repeat.
	Lend(ctx context.Context, claims []core.Claim, loans []Loan, dst []core.Result) (results []core.Result, lasts bool, err error)
}

// A Loan describes how a call changes the requests that are charged ahead for a key.
type Loan struct {
	Pair     core.Pair
	Limits   []core.Limit
	Compiled []algorithm.Limit // Limits, by package compiled
	Want     int64             // how many requests to charge ahead; 0 if the call has claims
	Unused   Portions          // to be returned

	At      int64             // when the store charged, in microseconds
	Granted int64             // requests charged ahead
	Left    []algorithm.Usage // what then remains of each limit
	Return  Outcome           // what became of Unused

	terms *terms // terms on which Unused was granted
}

// An Outcome says whether unused requests were returned to a store.
type Outcome uint8

const (
	Unknown     Outcome = iota // they may have been returned; do not return them again
	NotReturned                // they have not been returned
	Returned
)

// A Table holds the leases of a store by key. A key gets an entry when it is used a second time within one Lease, and
// loses the entry after about two Leases without a request.
type Table struct {
	store  Store
	seed   maphash.Seed
	begun  time.Time // instants are nanoseconds since then
	asked  askedPairs
	shards [64]shard

	keys     atomic.Int64
	returned atomic.Uint64
	timeout  atomic.Int64 // the longest time that a Take had until its deadline, in nanoseconds; a grant gets the same

	sweeping sync.Mutex // held by a sweep

	mu     sync.Mutex // guards the fields below
	known  []*terms
	unused []Loan        // of leases without an entry
	timer  *time.Timer   // of the next sweep; nil before the first
	armed  bool          // timer is running
	every  time.Duration // what timer was set to
}

// A shard has the entries of some hashes, with its own lock. Of two keys with the same hash, only one can be leased.
type shard struct {
	mu        sync.Mutex
	entries   map[uint64]*entry
	decisions uint64 // made from its leases
	_         [40]byte
}

// An entry is the lease of one key.
type entry struct {
	pair  core.Pair
	terms *terms // nil once the entry is out of the table
	lease
	refill, reset int64 // when the first limit has one more request, and all of them, according to the store's last reply
}

// after is what the store reported for a limit after a grant or a request.
type after struct {
	stored        uint32 // requests left in the store
	granted       int32  // on top of the capacity
	refill, reset int64
}

// terms are what a lease was granted for.
type terms struct {
	limits   []core.Limit
	compiled []algorithm.Limit
	length   int64 // Lease in nanoseconds
}

// fit reports whether c has the terms t.
func (t *terms) fit(c *core.Claim) bool {
	return t.length == int64(c.Lease) && t.charge(c)
}

// charge reports whether t and c charge the same limits, so that a call for c can return what was granted on t.
func (t *terms) charge(c *core.Claim) bool {
	return slices.Equal(t.limits, c.Limits)
}

// maxKnown bounds how many terms are kept for entries to share: a tier may return new limits with every request.
const maxKnown = 64

// termsOf returns the terms of a valid claim. Entries share them.
func (t *Table) termsOf(c *core.Claim) *terms {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range t.known {
		if known.fit(c) {
			return known
		}
	}
	limits, _ := compiled.Limits(c)
	own := &terms{slices.Clone(c.Limits), limits, int64(c.Lease)}
	if len(t.known) < maxKnown {
		t.known = append(t.known, own)
	}
	return own
}

// New returns a table of leases from s.
func New(s Store) *Table {
	t := &Table{store: s, seed: maphash.MakeSeed(), begun: time.Now()}
	for i := range t.shards {
		t.shards[i].entries = make(map[uint64]*entry)
	}
	return t
}

// now returns the current instant, which is never 0.
func (t *Table) now() int64 { return int64(time.Since(t.begun)) + 1 }

func (t *Table) shard(hash uint64) *shard { return &t.shards[hash%uint64(len(t.shards))] }

// pairOf returns the pair of c, whose rule name may be empty.
func pairOf(c *core.Claim) core.Pair { return named(c.Rule, c.Key) }

func named(rule, key string) core.Pair {
	if rule == "" {
		rule = "default"
	}
	return core.Pair{Rule: rule, Key: key}
}

func (t *Table) hash(p core.Pair) uint64 {
	return maphash.String(t.seed, p.Key) ^ bits.RotateLeft64(maphash.String(t.seed, p.Rule), 1)
}

// find returns the entry of a pair, or nil. The caller has locked s.
func (s *shard) find(hash uint64, p core.Pair) *entry {
	if e := s.entries[hash]; e != nil && e.pair == p {
		return e
	}
	return nil
}

// add adds an entry for a key, unless there is one with its hash. The caller has locked s.
func (t *Table) add(s *shard, hash uint64, c *core.Claim) *entry {
	if s.entries[hash] != nil {
		return nil
	}
	p := pairOf(c)
	p.Key = strings.Clone(p.Key) // which may be a part of a request
	e := &entry{pair: p, terms: t.termsOf(c)}
	s.entries[hash] = e
	t.keys.Add(1)
	t.arm(c.Lease)
	return e
}

// open adds an entry for the key of a claim if the key was used within the last Lease. It reports whether the key has
// an entry.
func (t *Table) open(hash uint64, c *core.Claim) bool {
	if !t.asked.within(hash, t.now(), int64(c.Lease)) {
		return false
	}
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(hash, pairOf(c)) != nil || t.add(s, hash, c) != nil
}

// remove removes an entry, whose portions have ended. The caller has locked s.
func (t *Table) remove(s *shard, hash uint64, e *entry) {
	delete(s.entries, hash)
	e.terms = nil
	t.keys.Add(-1)
}

// HasKeys reports whether any key is leased.
func (t *Table) HasKeys() bool { return t.keys.Load() > 0 }

// Stats describes the leases.
func (t *Table) Stats() core.LeaseStats {
	all := core.LeaseStats{Keys: int(t.keys.Load()), Returned: t.returned.Load()}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		all.Decisions += s.decisions
		s.mu.Unlock()
	}
	return all
}

// maxKey is the length of the longest key that can be leased. Clients may choose long keys, which the table would keep
// in memory.
const maxKey = 256

// leasable reports whether requests of c may be decided from a lease.
func leasable(c *core.Claim) bool {
	if c.Lease <= 0 || c.DryRun || c.Hold || c.Cost < 0 || len(c.Limits) == 0 || len(c.Key) > maxKey {
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

// askedPairs records which pairs were used recently, to find pairs that are worth a lease. It sometimes confuses two
// pairs, which costs an unnecessary call. The zero value is empty.
type askedPairs struct {
	cells [16384]atomic.Uint64 // half of the hash of a key, then the time of its last use, in microseconds
}

const lowHalf = 1<<32 - 1

// within reports whether the pair with a hash was used in the last length before now, in nanoseconds.
func (p *askedPairs) within(hash uint64, now, length int64) bool {
	before := p.cells[hash%uint64(len(p.cells))].Load()
	return before != 0 && before&^lowHalf == hash&^lowHalf && int64(uint32(now/1000)-uint32(before))*1000 < length
}

// note records that the pair with a hash is used at now.
func (p *askedPairs) note(hash uint64, now int64) {
	p.cells[hash%uint64(len(p.cells))].Store(hash&^lowHalf | uint64(uint32(now/1000)))
}
