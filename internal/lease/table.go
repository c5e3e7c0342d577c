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
//		results, sent, err = t.Take(ctx, claims, nil)
//	}
//
// A key that is used again within the Lease of its rule gets an entry in a Table (table.go). The entry's lease
// (lease.go: a state machine, without clock or lock) has the loan: the requests that were charged ahead. A request takes from the
// loan (take.go), and asks for a refill when little is left (refill.go). The store decides everything else, in a call that also
// returns what this process has leased of the same keys. A timer returns what else is unused, and a refund puts requests back into
// their loan (return.go).
//
// Two verbs say where requests go: a lease returns unused requests to the store, and a request puts back into its lease
// what it has taken and does not need.
package lease

import (
	"cmp"
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
	"github.com/spillgate/spillgate/internal/recent"
)

// A Store decides requests, and can charge requests ahead. Its methods first refund unused, requests that it has charged ahead.
type Store interface {
	// Take decides claims as core.Store does. If the results are a denial that the caller may repeat, sent is when the store was asked.
	Take(ctx context.Context, claims []core.Claim, unused []core.Settlement, dst []core.Result) (results []core.Result, sent time.Time, err error)

	// Lend charges the cost of loan ahead: at most half of what remains. It returns how much, and a peek at each limit after that.
	Lend(ctx context.Context, loan core.Claim, unused []core.Settlement) (charged int64, left []core.Result, err error)

	// Refund returns the error of each refund.
	Refund(ctx context.Context, unused []core.Settlement) []error
}

// NotRefunded is the error of a call that has refunded nothing. After any other error, requests may have been refunded, and must
// not be refunded again.
type NotRefunded struct{ Err error }

func (e NotRefunded) Error() string { return e.Err.Error() }
func (e NotRefunded) Unwrap() error { return e.Err }

// A Table holds the leases of a store by key. A key gets an entry when it is used a second time within one Lease, and
// loses the entry after about two Leases without a request.
type Table struct {
	store  Store
	seed   maphash.Seed
	begun  time.Time    // instants are nanoseconds since then
	asked  recent.Pairs // which pairs were used, to find those that are worth a lease
	leased leasedPairs
	shards [64]shard

	keys     atomic.Int64
	refills  atomic.Int64  // in flight
	refunded atomic.Uint64 // requests
	timeout  atomic.Int64  // the longest time that a Take had until its deadline, in nanoseconds; a refill gets the same

	sweeping sync.Mutex // held by a sweep

	mu     sync.Mutex // guards the fields below
	known  []*terms
	unused []core.Settlement // to be returned by the next sweep
	timer  *time.Timer       // of the next sweep; nil before the first
	every  time.Duration     // what timer was set to; 0 if it does not run
}

// A shard has the entries of some hashes, with its own lock. Of two keys with the same hash, only one can be leased.
type shard struct {
	mu        sync.Mutex
	entries   map[uint64]*entry
	decisions uint64 // requests that leases alone decided, the last claim from this shard
	_         [40]byte
}

// An entry is the lease of one key.
type entry struct {
	key   string
	terms *terms
	lease
	refill *refill // in flight; nil for none
	first  usage   // of the first limit
	heard  int64   // when the store reported the usages, in microseconds
}

// A usage is what the store has reported about a limit.
type usage struct {
	stored        uint32 // requests left in the store
	granted       int32  // on top of the capacity
	refill, reset int64  // when there will be one more request, and all of them, on the clock of this process
	next          *usage // of the next limit; nil if there is none
}

// terms are the rule that a lease is for.
type terms struct {
	rule   string
	limits []core.Limit
	length int64 // Lease in nanoseconds
}

// fit reports whether c, a claim of t's rule, has the same limits and Lease as t.
func (t *terms) fit(c *core.Claim) bool {
	return t.length == int64(c.Lease) && slices.Equal(t.limits, c.Limits)
}

// maxKnown bounds how many terms are kept for entries to share: a tier may return new limits with every request.
const maxKnown = 64

// termsOf returns the terms of a claim. Entries share them.
func (t *Table) termsOf(c *core.Claim) *terms {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.known, func(t *terms) bool { return t.rule == ruleOf(c.Rule) && t.fit(c) }); i >= 0 {
		return t.known[i]
	}
	own := &terms{ruleOf(c.Rule), slices.Clone(c.Limits), int64(c.Lease)}
	if len(t.known) < maxKnown {
		t.known = append(t.known, own)
	}
	return own
}

// New returns a table of leases from s.
func New(s Store) *Table { return &Table{store: s, seed: maphash.MakeSeed(), begun: time.Now()} }

// now returns the current instant, which is never 0.
func (t *Table) now() int64 { return int64(time.Since(t.begun)) + 1 }

func (t *Table) shard(hash uint64) *shard { return &t.shards[hash%uint64(len(t.shards))] }

func ruleOf(rule string) string { return cmp.Or(rule, "default") }

func (t *Table) hash(rule, key string) uint64 {
	return maphash.String(t.seed, key) ^ bits.RotateLeft64(maphash.String(t.seed, ruleOf(rule)), 1)
}

// visit calls f with the entry of a pair, or nil, and locks its shard meanwhile.
func (t *Table) visit(hash uint64, rule, key string, f func(e *entry)) {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.find(hash, rule, key))
}

// find returns the entry of a pair, or nil. The caller has locked s.
func (s *shard) find(hash uint64, rule, key string) *entry {
	if e := s.entries[hash]; e != nil && e.key == key && e.terms.rule == ruleOf(rule) {
		return e
	}
	return nil
}

// add adds an entry for the key of c, unless there is one with its hash or c is invalid. The caller has locked the shard.
func (t *Table) add(hash uint64, c *core.Claim) *entry {
	s := t.shard(hash)
	if s.entries[hash] != nil || c.Validate() != nil {
		return nil
	}
	if s.entries == nil {
		s.entries = make(map[uint64]*entry)
	}
	e := &entry{key: strings.Clone(c.Key), terms: t.termsOf(c)} // the key may be a part of a request
	s.entries[hash] = e
	t.leased.note(hash)
	t.keys.Add(1)
	t.arm(c.Lease)
	return e
}

// remove removes an entry, whose loans have ended. The caller has locked the shard.
func (t *Table) remove(hash uint64, e *entry) {
	delete(t.shard(hash).entries, hash)
	e.gone = true
	t.keys.Add(-1)
}

// HasKeys reports whether any key is leased.
func (t *Table) HasKeys() bool { return t.keys.Load() > 0 }

// Concerns reports whether Take is to decide claims, and not the store alone.
func (t *Table) Concerns(claims []core.Claim) bool {
	return t.HasKeys() || slices.ContainsFunc(claims, func(c core.Claim) bool { return c.Lease > 0 })
}

// Stats describes the leases.
func (t *Table) Stats() core.LeaseStats {
	all := core.LeaseStats{Keys: int(t.keys.Load()), Returned: t.refunded.Load()}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		all.Decisions += s.decisions
		s.mu.Unlock()
	}
	return all
}

// maxKey is the length of the longest key that can be leased: clients may choose keys, and the table keeps them in memory.
const maxKey = 256

// leasable reports whether requests like c may be charged ahead.
func leasable(c *core.Claim) bool {
	if c.Lease <= 0 || c.Peek || c.DryRun || c.Hold || c.Cost < 0 || len(c.Limits) == 0 || len(c.Key) > maxKey {
		return false
	}
	return !slices.ContainsFunc(c.Limits, func(l core.Limit) bool {
		one := algorithm.Limit{Algorithm: algorithm.Algorithm(l.Algorithm), Ban: int64(l.Ban)}
		return !one.Leasable()
	})
}

func costOf(c *core.Claim) int64 { return int64(max(c.Cost, 1)) }

// leasedPairs records which pairs have been leased. It sometimes confuses two pairs. The zero value is empty.
type leasedPairs struct{ bits [4096]atomic.Uint64 }

func (p *leasedPairs) note(hash uint64) { p.bits[hash>>6%uint64(len(p.bits))].Or(1 << (hash % 64)) }

func (p *leasedPairs) has(hash uint64) bool {
	return p.bits[hash>>6%uint64(len(p.bits))].Load()&(1<<(hash%64)) != 0
}
