package core

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultMaxKeys = 1_000_000
	shardBits      = 6
	shards         = 1 << shardBits // so that a set of shards is one uint64
)

// A MemoryStore is a Store in this process's memory. The zero value is ready; it has no goroutines and needs no Close.
// It must not be copied after first use.
//
// Its clock is the monotonic clock, added to the wall time of its first use. A key is known by a 64-bit hash with a seed
// of the store: among a million keys, two share their state with a probability of one in 37 million.
type MemoryStore struct {
	// MaxKeys bounds the pairs of rule and key that have state of their own; 0 means 1,000,000. A pair whose state
	// equals that of one never seen is dropped to make room for another or, in a store with room to spare, after ten
	// seconds or later. When no pair can be dropped, further ones share a fixed set of states, where they count for each
	// other: a flood of keys makes the store stricter, never laxer.
	// A pair takes about 48 bytes, and a sliding limit 24 for each sub-bucket or instant in use besides. A token bucket
	// equals one never seen when it has drained at the rate of its last charge: a tier that is slower from then on starts
	// anew.
	MaxKeys int

	once     sync.Once
	seed     maphash.Seed
	start    time.Time
	earliest atomic.Int64  // no decision comes before this instant
	epoch    int64         // start, in microseconds since 1970
	pairs    atomic.Int64  // with state of their own
	hand     atomic.Uint64 // the shard that sweep looks at next
	shards   []shard
}

func (m *MemoryStore) init() {
	m.seed = maphash.MakeSeed()
	m.start = time.Now()
	m.epoch = m.start.UnixMicro()
	m.shards = make([]shard, shards)
}

// Validate returns an error that wraps ErrInvalid if m cannot work as it is set up. New calls it.
func (m *MemoryStore) Validate() error {
	if m.MaxKeys < 0 {
		return prefix(invalid("MaxKeys must not be negative, got %d", m.MaxKeys))
	}
	return nil
}

// now returns microseconds since the Unix epoch.
func (m *MemoryStore) now() int64 {
	return max(m.epoch+time.Since(m.start).Microseconds(), m.earliest.Load())
}

// afterNow moves the clock on, if need be, and returns an instant that no earlier decision has.
func (m *MemoryStore) afterNow() int64 {
	after := m.now() + 1
	for {
		earliest := m.earliest.Load()
		if earliest >= after || m.earliest.CompareAndSwap(earliest, after) {
			return after
		}
	}
}

// Take implements Store. Its error wraps ErrInvalid.
func (m *MemoryStore) Take(_ context.Context, claims []Claim, dst []Result) ([]Result, error) {
	if results, ok := m.takeOne(claims, dst); ok {
		return results, nil
	}
	if results, ok := m.takeKnown(claims, dst); ok {
		return results, nil
	}
	var buf [8]pair
	pairs, err := m.find(buf[:0], claims)
	if err != nil {
		return dst, err
	}
	held := shardsOf(pairs)
	m.lock(held)
	defer m.unlock(held)
	d := deciding{store: m, held: held, now: m.now()}
	d.meter(pairs, claims)
	d.decide()
	return d.report(claims, dst), nil
}

// Settle implements Store.
func (m *MemoryStore) Settle(_ context.Context, claims []Claim) error {
	pairs, err := m.find(nil, claims)
	if err != nil {
		return err
	}
	held := shardsOf(pairs)
	m.lock(held)
	defer m.unlock(held)
	d := deciding{store: m, held: held, now: m.now()}
	d.meter(pairs, claims)
	for i := range d.meters {
		t := &d.meters[i]
		c := &claims[t.claim]
		if t.cost -= int64(c.Final); t.cost > 0 && !c.Peek && !c.Hold && c.At.UnixMicro() >= t.shard.begunAt(t.id) {
			t.refund(d.now, c.At.UnixMicro())
		}
	}
	return nil
}

// Reset implements Store. A pair that shares its state with others, because the store is full, stays as it is: to forget
// it would admit the others anew.
func (m *MemoryStore) Reset(_ context.Context, claims []Claim) error {
	m.once.Do(m.init)
	for i := range claims {
		m.forget(m.id(&claims[i]))
	}
	return nil
}

func (m *MemoryStore) forget(id uint64) {
	s := m.shard(id)
	s.Lock()
	defer s.Unlock()
	s.begin(id, m.afterNow())
	if s.forget(id) {
		m.pairs.Add(-1)
	}
}

// hash returns the id of a claim's pair and that of the state it shares when the store is full: one of 4,096 for each
// rule, in the same shard. Bits 12 to 51 of the latter are 0.
func (m *MemoryStore) hash(c *Claim) (id, common uint64) {
	rule := m.ruleID(c.Rule)
	id = m.pairID(c.Key, rule)
	return id, id&^(1<<52-1) | rule>>52 | 1
}

// id returns the id of a claim's pair.
func (m *MemoryStore) id(c *Claim) uint64 { return m.pairID(c.Key, m.ruleID(c.Rule)) }

func (m *MemoryStore) ruleID(name string) uint64 { return maphash.String(m.seed, ruleName(name)) }

// pairID multiplies so that the names of a key and a rule do not commute.
func (m *MemoryStore) pairID(key string, rule uint64) uint64 {
	return maphash.String(m.seed, key)*31 + rule
}

func shardOf(id uint64) uint64 { return id >> (64 - shardBits) }

func (m *MemoryStore) shard(id uint64) *shard { return &m.shards[shardOf(id)] }

// find appends the pair of each claim to dst. It returns an error if a claim is invalid.
func (m *MemoryStore) find(dst []pair, claims []Claim) ([]pair, error) {
	m.once.Do(m.init)
	for i := range claims {
		if err := claims[i].Validate(); err != nil {
			return nil, err
		}
		id, common := m.hash(&claims[i])
		dst = append(dst, pair{id, common})
	}
	return dst, nil
}

// shardsOf returns the set of the shards of pairs.
func shardsOf(pairs []pair) (set uint64) {
	for _, p := range pairs {
		set |= 1 << shardOf(p.id)
	}
	return set
}

// lock locks a set of shards, in ascending order.
func (m *MemoryStore) lock(held uint64) {
	for ; held != 0; held &= held - 1 {
		m.shards[bits.TrailingZeros64(held)].Lock()
	}
}

func (m *MemoryStore) unlock(held uint64) {
	for ; held != 0; held &= held - 1 {
		m.shards[bits.TrailingZeros64(held)].Unlock()
	}
}

// reserve counts a further pair with state of its own, if there may be one. A full store makes room first, if it can; keep
// are the meters of the decision under way.
func (m *MemoryStore) reserve(now int64, held uint64, keep []meter) bool {
	limit := int64(m.MaxKeys)
	if limit == 0 {
		limit = defaultMaxKeys
	}
	for range shards + 1 {
		if m.pairs.Add(1) <= limit {
			return true
		}
		m.pairs.Add(-1)
		m.sweep(now, held, keep)
	}
	return false
}

// sweep looks at some pairs of the next shard, unless somebody else holds that, and drops those that have nothing in use.
func (m *MemoryStore) sweep(now int64, held uint64, keep []meter) {
	i := m.hand.Add(1) % shards
	s := &m.shards[i]
	if held&(1<<i) == 0 {
		if !s.TryLock() {
			return
		}
		defer s.Unlock()
	}
	m.pairs.Add(-s.sweep(now, sweepFull, keep))
}
