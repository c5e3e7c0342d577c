package core

import (
	"math"
	"math/bits"
	"sync"
)

const (
	sweepFull = 16 // records a new pair looks at in each shard of a full store
	sweepSome = 2  // records any new pair looks at, so that a store with room to spare does not fill up with the idle
)

// A record is the state of one limit of one pair of rule and key: 40 bytes, without a pointer.
type record struct {
	id    uint64  // of the pair; 0 in an unused record
	kind  uint64  // period in µs << 4 | algorithm << 2 | tick of a bucket (0: µs, 1: ms, 2: s)
	level int64   // bucket: level; else: used
	at    int64   // bucket: at; window: start; queue: last
	drain float32 // bucket: µs from at until it is empty, rounded up
	extra uint32  // bucket: at - busy; queue: newest
}

const anyTick = 3

func kindOf(l Limit) uint64 {
	return uint64(l.Period.Microseconds())<<4 | uint64(l.Algorithm)<<2 | anyTick
}

// idle reports whether r equals the state of a pair never seen.
func (r *record) idle(now int64) bool {
	if Algorithm(r.kind>>2&3) == TokenBucket {
		return r.level == 0 || float64(now-r.at) >= float64(r.drain)
	}
	return r.level == 0 || now-r.at >= int64(r.kind>>4)
}

// isCommon reports whether id is one that MemoryStore.hash makes for pairs to share.
func isCommon(id uint64) bool { return id<<12>>24 == 0 }

// drainTime returns µs as a float32 that is not less.
func drainTime(µs int64) float32 {
	f := float32(µs)
	if float64(f) < float64(µs) {
		f = math.Nextafter32(f, math.MaxFloat32)
	}
	return f
}

// A shard is a part of a MemoryStore with a lock of its own: a hash table of records, by the id of their pair. The
// records of a pair, one per limit, lie in the same run of the table.
type shard struct {
	sync.Mutex
	index   []uint32 // number of a record, with 6 bits of its id on top; 0: free; linear probing
	records slab[record]
	entries slab[entry]
	count   int     // records in the index
	common  int     // those of them that pairs share
	hand    uint32  // the record that sweep looked at last
	meters  []meter // of the decision under way, if it began with this shard
	_       [64]byte
}

const (
	refBits = 26
	refMask = 1<<refBits - 1
)

func slot(id uint64, ref uint32) uint32 { return uint32(id)<<refBits | ref }

// home returns where the run of id begins. The top bits of id have chosen the shard.
func (s *shard) home(id uint64) int {
	hi, _ := bits.Mul64(id<<shardBits, uint64(len(s.index)))
	return int(hi)
}

func (s *shard) after(i int) int {
	if i++; i == len(s.index) {
		return 0
	}
	return i
}

// find returns the record of a pair that has this kind, or nil.
func (s *shard) find(id, kind uint64) *record {
	if s.count == 0 {
		return nil
	}
	for i := s.home(id); s.index[i] != 0; i = s.after(i) {
		if s.index[i]>>refBits == slot(id, 0)>>refBits {
			if r := s.records.at(s.index[i] & refMask); r.id == id && r.kind|anyTick == kind {
				return r
			}
		}
	}
	return nil
}

// has reports whether a pair has a record of any kind.
func (s *shard) has(id uint64) bool {
	return s.count > 0 && s.position(id, 0) >= 0
}

// position returns where the index refers to this record of a pair, or to any if ref is 0; -1 if it does not.
func (s *shard) position(id uint64, ref uint32) int {
	for i := s.home(id); s.index[i] != 0; i = s.after(i) {
		if other := s.index[i] & refMask; other == ref || ref == 0 && s.records.at(other).id == id {
			return i
		}
	}
	return -1
}

// insert adds an empty record.
func (s *shard) insert(id, kind uint64) *record {
	if 5*(s.count+1) > 4*len(s.index) {
		s.grow()
	}
	ref := s.records.add(record{id: id, kind: kind &^ anyTick})
	s.place(id, ref)
	s.count++
	return s.records.at(ref)
}

func (s *shard) place(id uint64, ref uint32) {
	i := s.home(id)
	for s.index[i] != 0 {
		i = s.after(i)
	}
	s.index[i] = slot(id, ref)
}

func (s *shard) grow() {
	old := s.index
	s.index = make([]uint32, max(16, len(old)*3/2))
	for _, v := range old {
		if v != 0 {
			s.place(s.records.at(v&refMask).id, v&refMask)
		}
	}
}

// removeAt frees position i of the index and what it refers to.
func (s *shard) removeAt(i int) {
	ref := s.index[i] & refMask
	r := s.records.at(ref)
	for q := r.queue(); q.newest != 0; {
		q = q.dropAfter(&s.entries, q.newest)
	}
	s.records.drop(ref)
	s.count--
	for j := s.after(i); s.index[j] != 0; j = s.after(j) {
		home := s.home(s.records.at(s.index[j] & refMask).id)
		if between := (home > i && home <= j) || (j < i && (home > i || home <= j)); !between {
			s.index[i] = s.index[j]
			i = j
		}
	}
	s.index[i] = 0
}

// forget removes all records of a pair and reports whether there were any.
func (s *shard) forget(id uint64) bool {
	had := false
	for s.has(id) {
		s.removeAt(s.position(id, 0))
		had = true
	}
	return had
}

// sweep looks at the next n records, removes those that are idle and returns how many pairs that leaves without one.
// It spares the pairs in keep.
func (s *shard) sweep(now int64, n uint32, keep []meter) (pairs int64) {
	for range min(n, s.records.used) {
		if s.hand++; s.hand > s.records.used {
			s.hand = 1
		}
		r := s.records.at(s.hand)
		if r.id == 0 || !r.idle(now) || keeps(keep, r.id) {
			continue
		}
		id := r.id
		s.removeAt(s.position(id, s.hand))
		if isCommon(id) {
			s.common--
		} else if !s.has(id) {
			pairs++
		}
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
