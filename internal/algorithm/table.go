package algorithm

import "math"

// An Algorithm measures a rate. The numbers are the same as core.Algorithm's. Each charge and each grant counts for one period from its
// instant under the algorithms from SlidingWindow on.
type Algorithm uint8

const (
	TokenBucket Algorithm = iota
	FixedWindow
	SlidingWindow
	SlidingLog
	InFlight
)

// A Row is one algorithm: the functions that a store applies to the state of a limit. The functions in Lua have the same
// names. Open comes before Charge, Book and Report.
type Row struct {
	Name string // in the notation of core.ParseLimits

	// Counts says that the limit counts requests in flight, whatever their cost, and has no state.
	Counts bool

	// Open sets s to what is stored, as it is at s.Now, and returns how long after s.Now the limit admits cost: at once if
	// 0, or Never. Open changes what is stored only if that lies in the future, because the clock has gone back.
	Open func(s *State, cost int64) (wait int64)

	// Charge adds cost, whether it fits or not, and stores s.
	Charge func(s *State, cost int64)

	// Book is Charge for a request that waits for its turn, while the pair is banned for ban microseconds more. Nil: no
	// request waits for the limit, and a grant is a cell of the pair.
	Book func(s *State, cost, ban int64)

	// Refund takes back a charge of cost at an earlier instant, as far as it still counts. turn is the turn of a request
	// that could wait, or NoTurn.
	Refund func(s *State, at, turn, cost int64)

	// Report sets s.Usage.
	Report func(s *State)

	// Ends returns the instant from which the state equals a new one. If that instant has passed, Ends may return an
	// earlier one.
	Ends func(r *Record) int64
}

// Table has the row of each Algorithm.
var Table = [...]Row{TokenBucket: tokenBucket, FixedWindow: fixedWindow, SlidingWindow: slidingWindow, SlidingLog: slidingLog, InFlight: inFlight}

// Names returns the names of the first n algorithms.
func Names(n Algorithm) (names []string) {
	for i := range Table[:n] {
		names = append(names, Table[i].Name)
	}
	return names
}

const (
	// Never is the wait of a cost that can never be admitted: longer than any other.
	Never = math.MaxInt64

	// NoTurn is the turn of a request that could not wait.
	NoTurn = -1
)

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
	Answer
}

// An Answer is what a limit says of a claim. The store sets Retry and Wait.
type Answer struct {
	Retry int64 // 0 if the limit admits the cost; else microseconds until it does, or Never
	Wait  int64 // microseconds until the turn of a request that is admitted
	Usage Usage
}

// inFlight measures what its pair holds, which the pair counts.
var inFlight = Row{
	Name:   "in-flight",
	Counts: true,
	Open: func(s *State, cost int64) int64 {
		if cost > s.Limit.Capacity {
			return Never
		}
		return 0
	},
	Charge: func(*State, int64) {},
	Refund: func(*State, int64, int64, int64) {},
	Report: func(s *State) { s.Usage = Usage{Remaining: s.Limit.Capacity} },
}
