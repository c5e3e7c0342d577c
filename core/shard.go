package core

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	sweepFull = 16 // records a new pair looks at in each shard of a full store
	sweepSome = 2  // records any new pair looks at, so that a store with room to spare does not fill up with the idle
	sweepMost = 16 // unused records a sweep passes for each that it looks at

	// lately is for how long a store with room to spare keeps the idle, in microseconds: who comes again and again is mostly
	// idle in between, and to find a record takes a quarter of the time that adding it takes.
	lately = 10_000_000
)

// A record is the state of one limit of one pair of rule and key: 40 bytes, without a pointer.
type record struct {
	id    uint64 // of the pair; 0 in an unused record
	kind  uint64 // slowest of a bucket << 53 | period in µs << 4 | algorithm << 2 | tick of a bucket (0: µs, 1: ms, 2: s)
	level int64  // bucket: level; else: used
	at    int64  // bucket: at; window: start; queue: last
	rate  uint32 // bucket: rate
	extra uint32 // bucket: at - busy; queue: newest
}

const (
	anyTick     = 3
	slowestBits = 1<<11 - 1
	slowestAt   = 53
)

func kindOf(l Limit) uint64 {
	return uint64(l.Period.Microseconds())<<4 | uint64(l.Algorithm)<<2 | anyTick
}

// is reports whether r is of a kind, whatever else its kind says.
func (r *record) is(kind uint64) bool { return r.kind&^(slowestBits<<slowestAt)|anyTick == kind }

// idle reports whether r equals the state of a pair never seen.
func (r *record) idle(now int64) bool {
	switch {
	case r.level == 0:
		return true
	case Algorithm(r.kind>>2&3) == TokenBucket:
		b := r.bucket()
		return b.isForgotten(now)
	default:
		return now-r.at >= int64(r.kind>>4)
	}
}

// packRate returns a coarse rate in 11 bits, which are 0 for 0: the position of its highest bit and the six bits below.
func packRate(rate int64) uint64 {
	if rate == 0 {
		return 0
	}
	n := bits.Len64(uint64(rate))
	return uint64(n)<<6 | uint64(rate)<<7>>n&(1<<6-1)
}

func unpackRate(packed uint64) int64 {
	if packed == 0 {
		return 0
	}
	return int64((1<<6 | packed&(1<<6-1)) << (packed >> 6) >> 7)
}

// isCommon reports whether id is one that MemoryStore.hash makes for pairs to share.
func isCommon(id uint64) bool { return id<<12>>24 == 0 }

// A shard is a part of a MemoryStore with a lock of its own.
type shard struct {
	sync.Mutex
	table
	entries slab[entry]
	common  int     // records that pairs share
	hand    int     // the record that sweep looks at next
	meters  []meter // of the decision under way, if it began with this shard
	resets
	waited atomic.Int64 // when enter last found the shard locked, in microseconds
	_      [64]byte
}

// removeAt removes record i and its entries.
func (s *shard) removeAt(i int) {
	for q := s.records[i].queue(); q.newest != 0; {
		q = q.dropAfter(&s.entries, q.newest)
	}
	s.remove(i)
}

// forget removes all records of a pair and reports whether there were any.
func (s *shard) forget(id uint64) bool {
	had := false
	for s.has(id) {
		s.removeAt(s.first(id))
		had = true
	}
	return had
}

// sweep looks at the next n records, removes those that are idle and returns how many pairs that leaves without one.
// It spares the pairs in keep.
func (s *shard) sweep(now int64, n int, keep []meter) (pairs int64) {
	for range min(n*(1+sweepMost), len(s.records)) {
		if s.hand >= len(s.records) {
			s.hand = 0
		}
		r := &s.records[s.hand]
		switch {
		case n == 0:
			return pairs
		case r.id == 0:
			s.hand++
			continue
		case !r.idle(now) || keeps(keep, r.id):
			s.hand++
		default: // the next record takes its place
			pairs += s.drop(s.hand)
		}
		n--
	}
	return pairs
}

// drop removes record i and returns how many pairs that leaves without one.
func (s *shard) drop(i int) (pairs int64) {
	id := s.records[i].id
	s.removeAt(i)
	switch {
	case isCommon(id):
		s.common--
	case !s.has(id):
		pairs++
	}
	return pairs
}

func keeps(keep []meter, id uint64) bool {
	for i := range keep {
		if keep[i].id == id || keep[i].common == id {
			return true
		}
	}
	return false
}
