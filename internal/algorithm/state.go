package algorithm

// A Record is the state of one limit of a pair as the memory store keeps it: 40 bytes without a pointer. Only this package
// knows the meaning of each field; the file of each algorithm says it. A record of CellsKind has the cells of the pair: At is
// when all have ended, Extra the number of its Cells.
type Record struct {
	Pair    uint64 // 0 in an unused record
	Kind    uint64
	Level   int64
	At      int64
	Sibling uint32 // Limit.Sibling
	Extra   uint32
}

const (
	codeBits = 5 // of a Kind, its last: four times the algorithm
	tickBits = 3 // a mask: where buckets keep their tick
)

// Is reports whether r is a state of a limit of kind: perhaps the state of a sibling.
func (r *Record) Is(kind uint64) bool { return (r.Kind^kind)&^tickBits == 0 }

// algorithmOf returns the algorithm of a kind, which is not CellsKind.
func algorithmOf(kind uint64) Algorithm { return Algorithm(kind % (1 << codeBits) >> 2) }

// isSibling reports whether r is a state of the algorithm and period of l, but not l's own.
func (r *Record) isSibling(l *Limit) bool { return r.Is(l.Kind) && r.Sibling != l.Sibling }

// isSliding reports whether a kind is of an algorithm under which each charge counts for one period from its instant.
func isSliding(kind uint64) bool { return algorithmOf(kind) >= SlidingWindow }

// HasLog reports whether Extra is the number of a Log: sliding states use it for nothing else.
func (r *Record) HasLog() bool { return isSliding(r.Kind) && r.Extra != 0 }

// Ends returns the instant from which r equals no record. If that instant has passed, Ends may return an earlier one.
func (r *Record) Ends() int64 {
	if r.Kind == CellsKind || r.Level == 0 {
		return r.At
	}
	return Table[algorithmOf(r.Kind)].Ends(r)
}

// micros returns the period of the limit of r: a number from firstCalendar on for a calendar.
func (r *Record) micros() int64 { return int64(r.Kind >> codeBits) }

// Pick sets Run to the records of a pair, and finds Stored and its siblings among them. It reports whether there are any.
func (s *State) Pick(run []Record) bool {
	l, siblings := s.Limit, 0
	var stored *Record
	for i := range run {
		switch r := &run[i]; {
		case !r.Is(l.Kind):
		case r.Sibling == l.Sibling:
			stored = r
		default:
			siblings++
		}
	}
	s.Stored, s.Run, s.Siblings = stored, run, siblings
	return stored != nil || siblings > 0
}

// emptySiblings empties siblings that count nothing any more, so that they do not count even if the clock goes back.
func (s *State) emptySiblings() {
	for i := range s.Run {
		if r := &s.Run[i]; r.isSibling(s.Limit) && s.Limit.Row.Ends(r) <= s.Now {
			r.Level = 0
		}
	}
}

// maxSiblings is how many states of one algorithm and period a pair has at most.
const maxSiblings = 8

// Place returns the record of a kind in run that a further sibling replaces: one that is idle since before now or, if there
// may be no more, the one that ends first (of several, the slowest or the narrowest). It returns nil if there may be one
// more.
func Place(run []Record, kind uint64, now int64) (place *Record) {
	n := 0
	for i := range run {
		r := &run[i]
		if !r.Is(kind) {
			continue
		}
		n++
		if place == nil || r.Ends() < place.Ends() || r.Ends() == place.Ends() && (r.Sibling < place.Sibling) != isSliding(kind) {
			place = r
		}
	}
	if place != nil && n < maxSiblings && place.Ends() >= now {
		return nil
	}
	return place
}
