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
	logs    algorithm.Slab[algorithm.Log]
	cells   algorithm.Slab[algorithm.Cells]
	room    room
	shared  int   // records that pairs share
	forgot  int64 // charges from before this instant are not given back: some pair was reset, and there was no room to remember it
	dropped int64 // charges from before this instant are not given back to shared records: a pair that was dropped may have had its own

	hand int           // the record that sweep looks at next
	seen int64         // no record that the hand has passed is idle before this instant
	ends *atomic.Int64 // no record at all is idle before this instant
	_    [64]byte
}

func (s *shard) begin(ends *atomic.Int64) {
	s.ends, s.seen, s.forgot, s.dropped = ends, math.MaxInt64, math.MinInt64, math.MinInt64
	ends.Store(math.MaxInt64)
}

// noteEnds records when the records of a pair, which may end earlier now, are idle.
func (s *shard) noteEnds(id uint64) {
	if run, _ := s.of(id); len(run) > 0 {
		ends := endOf(run)
		s.seen = min(s.seen, ends)
		s.ends.Store(min(s.ends.Load(), ends))
	}
}

// endOf returns the instant from which the records of a pair equal none.
func endOf(run []record) (ends int64) {
	ends = math.MinInt64
	for i := range run {
		ends = max(ends, run[i].Ends())
	}
	return ends
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

// removeAt removes record i, whose place the next one takes.
func (s *shard) removeAt(i int) {
	s.empty(&s.records[i])
	s.remove(i)
	if i < s.hand { // the hand has missed a record
		s.seen = math.MinInt64
	}
}

// empty drops what r refers to.
func (s *shard) empty(r *record) {
	switch {
	case r.Extra == 0:
	case r.Kind == algorithm.CellsKind:
		s.cells.Drop(r.Extra)
	case r.HasLog():
		s.logs.Drop(r.Extra)
	}
}

// heldAt returns how many requests hold something at an instant.
func (s *shard) heldAt(at int64) (held int) {
	for cells := range s.cells.All {
		for _, x := range *cells {
			if x.Kind == algorithm.Hold && x.Ends > at {
				held += int(x.Count)
			}
		}
	}
	return held
}

// isDue reports whether endHolds changes the cells among the records of a pair.
func (s *shard) isDue(run []record, now int64) bool {
	return len(run) > 0 && run[0].Kind == algorithm.CellsKind && s.cells.At(run[0].Extra).IsDue(now)
}

// endHolds drops the cells of a pair, or those that pairs share, that have ended at now, and charges each hold among them
// at its end. It reports whether it has changed anything; records may have moved then.
func (s *shard) endHolds(id uint64, now, offset int64) (changed bool) {
	run, _ := s.of(id)
	if !s.isDue(run, now) {
		return false
	}
	cells, shared := s.cells.At(run[0].Extra), uint64(run[0].Level)
	if id != shared { // what this charges to shared states later than their holds ended would move back to those ends
		s.endHolds(shared, now, offset)
	}
	cells.Rewind(now)
	ended := cells.DropHolds(now)
	for i := range ended {
		x := &ended[i]
		for j := range x.Limits {
			if l := &x.Limits[j]; l.IsCharged() {
				s.chargeEnded(id, shared, x.N, now, &algorithm.State{Limit: l, Cells: cells, Logs: &s.logs, Now: x.Ends, Offset: offset, Ended: true})
			}
		}
	}
	cells.Drop(now)
	s.find(id, algorithm.CellsKind).At = max(now, cells.Ends())
	s.noteEnds(id)
	return true
}

// chargeEnded charges the cost of a hold that has ended to the state of a limit of its pair. If the pair shares the state
// with others, that is charged at now: at the end of the hold, their later charges would move back to it.
func (s *shard) chargeEnded(id, shared uint64, cost, now int64, a *algorithm.State) {
	own, _ := s.of(id)
	others, _ := s.of(shared)
	if !a.Pick(own) && (a.Pick(others) || len(own) >= maxStates) {
		id, a.Now, a.Ended = shared, now, false
	}
	if a.Stored == nil {
		s.ensure(id, a.Limit.Kind, a.Limit.Sibling, a.Now, shared)
		run, _ := s.of(id)
		a.Pick(run)
	}
	a.Open()
	a.Limit.Row.Charge(a, cost)
	s.noteEnds(id)
}

// sweep looks at the records of the next n pairs and removes those that were idle at an instant, unless an op is about their pair. A pair
// keeps idle records beside live ones, because without them it would share those states with others. Before sweep looks at the records of a
// pair, it ends the pair's holds.
func (c *call) sweep(s *shard, at int64, n int) {
	for range min(n*(1+maxUnused), len(s.records)) {
		if n == 0 {
			break
		}
		if s.hand >= len(s.records) { // all records are passed
			s.ends.Store(s.seen)
			s.hand, s.seen = 0, math.MaxInt64
		}
		id := s.records[s.hand].Pair
		if id == 0 {
			s.hand++
			continue
		}
		n--
		if s.cells.Len() > 0 && s.endHolds(id, c.now, c.offset) {
			continue
		}
		run, first := s.of(id)
		if ends := endOf(run); ends > at || c.keeps(id) {
			s.seen = min(s.seen, ends)
			s.hand = first + len(run)
			continue
		}
		s.hand, s.dropped = first, max(s.dropped, c.now)
		for range run {
			s.removeAt(first)
		}
		if isShared(id) {
			s.shared -= len(run)
		} else {
			c.store.pairs.Add(-1)
		}
	}
}

// keeps reports whether an op is about the pair, or the shared records, of this id.
func (c *call) keeps(id uint64) bool {
	for i := range c.ops {
		if p := &c.ops[i].Pair; p.id == id || p.shared == id {
			return true
		}
	}
	return false
}
