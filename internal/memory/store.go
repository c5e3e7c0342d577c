package memory

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

const (
	shardBits = 6
	shards    = 1 << shardBits // so that a set of shards is one uint64
	maxCost   = algorithm.MaxExact
)

// A Store keeps the states of pairs of rule and key. It is safe for concurrent use.
type Store struct {
	maxKeys int64
	clock   clock
	pairs   atomic.Int64  // with records of their own
	hand    atomic.Uint64 // the shard that makeRoom looks at next
	ends    [shards]atomic.Int64
	shards  [shards]shard
}

// New returns a store in which at most maxKeys pairs have records of their own. Now replaces the clock of the machine, unless
// it is nil.
func New(maxKeys int, now func() time.Time) *Store {
	s := &Store{maxKeys: int64(maxKeys)}
	s.clock.begin(now)
	for i := range s.shards {
		s.shards[i].begin(&s.ends[i])
	}
	return s
}

// A Rule is the hash of the name of a rule. All stores hash with one seed, so that a limiter hashes each name only once.
type Rule uint64

var seed = maphash.MakeSeed()

// RuleOf returns the rule of a name.
func RuleOf(name string) Rule { return Rule(maphash.String(seed, name)) }

// A Pair identifies a rule and a key. The probability of confusing two pairs is 2^-64.
type Pair struct {
	id     uint64
	shared uint64 // of the records that the pair shares when the store is full
}

// Pair returns the pair of r and a key. It shares one of 4,096 records of the rule and kind, in its own shard. Bits 12 to
// 51 of the id of shared records are 0.
func (r Rule) Pair(key string) Pair {
	id := maphash.String(seed, key)*31 + uint64(r) // multiplied, so that the names of rule and key do not commute
	return Pair{id: id, shared: id&^(1<<52-1) | uint64(r)>>52 | 1}
}

// isShared reports whether id is one that pairs share.
func isShared(id uint64) bool { return id<<12>>24 == 0 }

// Take decides claims together: if a claim that is not a dry run is denied, no claim is charged. It sets one answer for
// each limit of each claim, in order, and returns the wall time of the decision.
func (s *Store) Take(claims []Claim, answers []Answer) time.Time {
	d := decision{claims: claims}
	for i := range claims {
		d.held |= claims[i].Pair.shardBit()
	}
	s.lock(d.held)
	defer s.unlock(d.held)
	d.open(s, len(answers))
	d.take(s, answers)
	d.end()
	return s.clock.time(d.now)
}

// Settle settles all settlements at one instant.
func (s *Store) Settle(settlements []Settlement) {
	d, limits := decision{}, 0
	var room [4]Claim
	d.claims = room[:0]
	for i := range settlements {
		if t := &settlements[i]; t.changes() {
			d.held |= t.Pair.shardBit()
			limits += len(t.Limits)
			d.claims = append(d.claims, Claim{Pair: t.Pair, Limits: t.Limits})
		}
	}
	if len(d.claims) == 0 {
		return
	}
	s.lock(d.held)
	defer s.unlock(d.held)
	d.open(s, limits)
	n := 0
	for i := range settlements {
		if t := &settlements[i]; t.changes() {
			d.settle(s, &d.claims[n], t)
			n++
		}
	}
	d.end()
}

// Time returns the wall time of an instant.
func (s *Store) Time(now int64) time.Time { return s.clock.time(now) }

// Instant returns the instant of a time that Take has returned.
func (s *Store) Instant(t time.Time) int64 { return s.clock.instant(t) }

// Reset forgets the records of a pair. It keeps records that the pair shares with others, because otherwise it would
// admit the others again.
func (s *Store) Reset(p Pair) {
	sh := s.shard(p)
	sh.Lock()
	defer sh.Unlock()
	gone := sh.forget(p.id, s.clock.read())
	sh.resets.begin(p.id, s.clock.readAfter())
	if gone {
		s.pairs.Add(-1)
	}
}

// Stats returns how many pairs have records of their own, how many records are shared, and how many holds there are.
func (s *Store) Stats() (keys, shared, held int) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.Lock()
		shared += sh.shared
		held += sh.heldAt(s.clock.read())
		sh.Unlock()
	}
	return int(s.pairs.Load()), shared, held
}

func (s *Store) shard(p Pair) *shard { return &s.shards[p.id>>(64-shardBits)] }

// shardBit returns the set of the one shard of p.
func (p Pair) shardBit() uint64 { return 1 << (p.id >> (64 - shardBits)) }

// lock locks a set of shards, in ascending order.
func (s *Store) lock(set uint64) {
	for ; set != 0; set &= set - 1 {
		s.shards[bits.TrailingZeros64(set)].Lock()
	}
}

func (s *Store) unlock(held uint64) {
	for ; held != 0; held &= held - 1 {
		s.shards[bits.TrailingZeros64(held)].Unlock()
	}
}
