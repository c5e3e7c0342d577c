package algorithm

// A Record is the state of one limit of a pair as the memory store keeps it: 40 bytes without a pointer. Only this package
// knows the meaning of each field.
//
//	                Kind         Sibling      Level  At                         Extra
//	bucket          Kind | tick  rate         level  instant                    At - Busy
//	fixed window    Kind         -            used   start                      seconds of a calendar's window
//	sliding window  Kind         sub-buckets  counted  end of the newest charged  number of its Log
//	sliding log     Kind         -            counted  newest instant             number of its Log
//	cells           CellsKind    -            -      when all have ended        number of its Cells
type Record struct {
	Pair    uint64 // 0 in an unused record
	Kind    uint64
	Level   int64
	At      int64
	Sibling uint32 // Limit.Sibling
	Extra   uint32
}

const (
	codeBits = 1<<4 - 1 // of a Kind: Row.Code
	tickBits = 3        // buckets keep their tick where other algorithms have the last bits of their code
)

// Is reports whether r is a state of a limit of kind: perhaps the state of a sibling.
func (r *Record) Is(kind uint64) bool { return (r.Kind^kind)&^tickBits == 0 }

// row returns the algorithm of r, which is not CellsKind.
func (r *Record) row() *Row { return &Table[r.Kind&codeBits>>2] }

// isSibling reports whether r is a state of the algorithm and period of l, but not l's own.
func (r *Record) isSibling(l *Limit) bool { return r.Is(l.Kind) && r.Sibling != l.Sibling }

// isSliding reports whether a kind is of sliding windows or logs.
func isSliding(kind uint64) bool { return kind&codeBits >= slidingCode }

// HasLog reports whether Extra is the number of a Log.
func (r *Record) HasLog() bool { return isSliding(r.Kind) && r.Extra != 0 }

// Ends returns the instant from which r equals no record. If that instant has passed, Ends may return an earlier one.
func (r *Record) Ends() int64 {
	if r.Kind == CellsKind {
		return r.At
	}
	return r.row().Ends(r)
}

// micros returns the period of the limit of r: a number from firstCalendar on for a calendar.
func (r *Record) micros() int64 { return int64(r.Kind >> 4) }

// A State is the state of one limit of one pair while a store decides. The store sets the fields up to Ended, and Open the
// others.
//
// States of one algorithm and period are siblings: buckets of different rates, and sliding windows of different
// sub-buckets. Each request counts in one or in all of them, and each of them may deny a request. Most pairs have no
// siblings.
type State struct {
	Limit    *Limit   // of the request
	Stored   *Record  // the state that is its own; nil if none is stored
	Run      []Record // all records of the pair
	Siblings int      // how many of them are siblings of Stored
	Cells    *Cells   // of the pair; nil if it has none
	Logs     *Slab[Log]
	Now      int64
	Offset   int64 // how far the wall clock is ahead of Now
	Ended    bool  // Now is the end of a hold: states of later instants stay as they are

	Bucket
	Window
	others int64 // of buckets: the level of the fullest sibling
	Behind int64 // of buckets: how long the siblings make the request wait
	used   int64 // of sliding limits
}

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

// maxSiblings is how many states of one algorithm and period a pair has at most.
const maxSiblings = 8

// Place returns the record of a kind in run that a further sibling replaces: one that is idle since before now or, if there
// may be no more, the one that ends first (of several, the slowest or the narrowest). It returns nil if there may be one
// more.
func Place(run []Record, kind uint64, now int64, full bool) (place *Record) {
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
	if place != nil && n < maxSiblings && !full && place.Ends() >= now {
		return nil
	}
	return place
}
