package memory

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A shard holds the pairs of some hashes, with a lock of its own.
type shard struct {
	sync.Mutex
	table
	logs   slab[algorithm.Log]
	holds  slab[algorithm.Holds]
	resets resets
	room   []ask // see decision.open
	shared int   // records that pairs share

	hand int           // the record that sweep looks at next
	seen int64         // no record that the hand has passed is idle before this instant
	ends *atomic.Int64 // no record at all is idle before this instant
	_    [64]byte
}

func (s *shard) begin(ends *atomic.Int64) {
	s.ends, s.seen = ends, math.MaxInt64
	ends.Store(math.MaxInt64)
}

// endsAt records that some record is idle from an instant on.
func (s *shard) endsAt(at int64) {
	s.seen = min(s.seen, at)
	s.ends.Store(min(s.ends.Load(), at))
}

// findShared returns the record of a kind that a pair shares, or nil.
func (s *shard) findShared(p Pair, kind uint64) *record {
	if s.shared == 0 {
		return nil
	}
	return s.find(p.shared, kind)
}

// logOf returns the log of a state of the algorithm row: an empty one if it has none.
func (s *shard) logOf(row *algorithm.Row, p *algorithm.Packed) *algorithm.Log {
	if !row.KeepsLog || p.Extra == 0 {
		return &noLog
	}
	return s.logs.at(p.Extra)
}

// insert adds an empty record. It moves others, so a sweep starts over if the table has grown.
func (s *shard) insert(id, kind uint64) *record {
	homes := s.homes
	r := s.table.insert(id, kind)
	if s.homes != homes {
		s.hand, s.seen = 0, math.MaxInt64
	}
	return r
}

// removeAt removes record i and its log or holds. The next record takes its place.
func (s *shard) removeAt(i int) {
	switch r := &s.records[i]; {
	case r.hasHolds():
		s.holds.drop(r.Extra)
	case r.hasLog():
		s.logs.drop(r.Extra)
	}
	s.remove(i)
	if i < s.hand { // the hand has missed a record
		s.seen = math.MinInt64
	}
}

// forget forgets at now what was charged to a pair, and lifts its ban. Its holds stay, and so do the states to which
// they will be charged, emptied. forget reports whether the pair has no record left.
func (s *shard) forget(id uint64, now int64) bool {
	had := s.has(id)
	if r := s.find(id, algorithm.HoldKind); r != nil && r.hasHolds() {
		s.holds.at(r.Extra).Drop(now)
		s.held(r, now)
	}
	for i := s.first(id); had && s.records[i].id == id; {
		switch r := &s.records[i]; {
		case r.hasHolds() && s.holds.at(r.Extra).Ends() > 0:
			i++
		case r.IsHeld():
			r.Row().Forget(&r.Packed, s.logOf(r.Row(), &r.Packed))
			i++
		default:
			s.removeAt(i)
		}
	}
	return had && !s.has(id)
}

// heldAt returns how many requests hold something at an instant.
func (s *shard) heldAt(at int64) (held int) {
	for h := range s.holds.all {
		_, count := h.Sum(at)
		held += int(count)
	}
	return held
}

// sweep looks at the next n records and removes those that were idle at an instant, unless their pair is in keep. It returns
// how many pairs that leaves without a record.
func (s *shard) sweep(at int64, n int, keep []Claim) (pairs int64) {
	for range min(n*(1+maxUnused), len(s.records)) {
		if n == 0 {
			break
		}
		if s.hand >= len(s.records) { // all records are passed
			s.ends.Store(s.seen)
			s.hand, s.seen = 0, math.MaxInt64
		}
		r := &s.records[s.hand]
		if r.id == 0 {
			s.hand++
			continue
		}
		n--
		if ends := s.idleFrom(r); ends > at || keeps(keep, r.id) {
			s.seen = min(s.seen, ends)
			s.hand++
			continue
		}
		pairs += s.drop(s.hand)
	}
	return pairs
}

// drop removes record i and returns how many pairs that leaves without one.
func (s *shard) drop(i int) (pairs int64) {
	id := s.records[i].id
	s.removeAt(i)
	switch {
	case isShared(id):
		s.shared--
	case !s.has(id):
		pairs++
	}
	return pairs
}

// keeps reports whether a claim is about the pair, or the shared records, of this id.
func keeps(keep []Claim, id uint64) bool {
	for i := range keep {
		if keep[i].Pair.id == id || keep[i].Pair.shared == id {
			return true
		}
	}
	return false
}

// resets records when pairs were reset. Charges from before a reset are no longer given back, because other requests
// may have been charged in their place.
type resets struct {
	begun  map[uint64]int64 // by pair: the first instant after its reset
	forgot int64            // the latest instant that is no longer in begun
}

// maxResets bounds the resets that a shard remembers.
const maxResets = 1024

// begin records that at is the first instant after the reset of a pair.
func (r *resets) begin(id uint64, at int64) {
	if r.begun == nil {
		r.begun = make(map[uint64]int64)
	}
	if len(r.begun) == maxResets {
		clear(r.begun)
		r.forgot = at
	}
	r.begun[id] = at
}

// begunAt returns the instant before which charges of a pair are not given back. It may be too late if many pairs were reset.
func (r *resets) begunAt(id uint64) int64 { return max(r.begun[id], r.forgot) }
