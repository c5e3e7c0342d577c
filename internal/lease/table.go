// Package lease decides requests of busy keys in memory: a process charges requests ahead in a store, uses them up, and gives back what
// it has not used. The store never admits more than the limits.
//
//	t := lease.New(store)
//	results, ok := t.TakeLocal(claims, nil)
//	if !ok {
//		results, lasts, err = t.Take(ctx, claims, nil)
//	}
//
// A key that is asked for again within the Lease of its rule gets an entry in a Table (table.go). Its lease (lease.go: a state machine,
// without clock or lock) has the requests that were charged ahead. TakeLocal decides from it (take.go), and asks for the next grant
// when little is left (grant.go). What a lease does not decide the store does (rest.go), in a call that gives back what this process
// holds of the same keys. A timer gives back what nobody has used, and a refund goes back into its lease (return.go).
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
)

// A Store decides requests, and can charge requests ahead.
type Store interface {
	// Lend takes back what is unused of the loans. Then it decides claims, if there are any, as core.Store does, and appends their
	// results to dst. Then it charges ahead what the loans want of what remains, at most half of that.
	//
	// If there are claims, there are no loans, or one for each of them. Otherwise each loan is by itself. Lend sets what the loans
	// report, even if it returns an error. A result lasts if it is a denial that the caller may repeat.
	Lend(ctx context.Context, claims []core.Claim, loans []Loan, dst []core.Result) (results []core.Result, lasts bool, err error)
}

// A Loan is what a call changes of the requests that are charged ahead for a key.
type Loan struct {
	Pair   core.Pair
	Limits []core.Limit
	Want   int64    // how many requests to charge ahead; 0 if the call has claims
	Unused Portions // to be given back

	At      int64             // when the store charged, in microseconds
	Granted int64             // requests charged ahead
	Left    []algorithm.Usage // what that leaves of each limit
	Return  Outcome           // of Unused

	terms *terms // that Unused was granted on
}

// An Outcome says whether a store has taken back what was unused.
type Outcome uint8

const (
	Unknown     Outcome = iota // it may have, and must not be asked again
	NotReturned                // it has not
	Returned
)

// A Table holds the leases of a store by key. A key gets an entry when it is asked for a second time within one Lease, and
// loses it after about two Leases without a request.
type Table struct {
	store  Store
	seed   maphash.Seed
	begun  time.Time // instants are nanoseconds since then
	asked  askedPairs
	shards [64]shard

	keys     atomic.Int64
	returned atomic.Uint64
	timeout  atomic.Int64 // the longest that a Take had until its deadline, in nanoseconds; a grant gets as much

	sweeping sync.Mutex // held by a sweep

	mu     sync.Mutex // of what follows
	known  []*terms
	unused []Loan        // of leases whose entry is gone
	timer  *time.Timer   // of the next sweep; nil before the first
	armed  bool          // timer is running
	every  time.Duration // what timer was set to
}

// A shard holds the entries of some hashes, with a lock of its own. Of two keys with the same hash one is leased.
type shard struct {
	mu        sync.Mutex
	entries   map[uint64]*entry
	decisions uint64 // made from its leases
	_         [40]byte
}

// A entry is the lease of one key.
type entry struct {
	pair  core.Pair
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
func (t *Table) termsOf(c *core.Claim) *terms {
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

// pairOf returns the pair of c, whose rule may have no name.
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

// open adds an entry for the key of a claim if it was asked for within a Lease, and reports whether there is one.
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

// maxKey is how long a key may be to be leased: a client may choose long keys, which the table would keep.
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

// askedPairs says which pairs were asked for lately, to find those that are worth a lease. It takes a pair for another one now
// and then: that costs a call. The zero value is empty.
type askedPairs struct {
	cells [16384]atomic.Uint64 // half of the hash of a key, then when it was asked for, in microseconds
}

const lowHalf = 1<<32 - 1

// within reports whether the pair with a hash was asked for within length before now, in nanoseconds.
func (p *askedPairs) within(hash uint64, now, length int64) bool {
	before := p.cells[hash%uint64(len(p.cells))].Load()
	return before != 0 && before&^lowHalf == hash&^lowHalf && int64(uint32(now/1000)-uint32(before))*1000 < length
}

// note notes that the pair with a hash is asked for at now.
func (p *askedPairs) note(hash uint64, now int64) {
	p.cells[hash%uint64(len(p.cells))].Store(hash&^lowHalf | uint64(uint32(now/1000)))
}
