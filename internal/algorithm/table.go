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
// names. Open comes before UntilUsed, Charge and Book.
type Row struct {
	Name string // in the notation of core.ParseLimits

	// Open sets s to what is stored, as it is at s.Now, and returns what that has used: requests, or the level of a bucket. Open
	// changes what is stored only if the clock has gone back or, for a window, was set.
	Open func(s *State) (used int64)

	// UntilUsed returns how long after s.Now s takes to have used no more than target, which is less than it has used now, and to have
	// used nothing.
	UntilUsed func(s *State, target int64) (until, unused int64)

	// Charge adds cost, whether it fits or not, and stores s.
	Charge func(s *State, cost int64)

	// Book is Charge for a request that waits for its turn, while the pair is banned for ban microseconds more. Nil: no
	// request waits for the limit, and a grant is a cell of the pair.
	Book func(s *State, cost, ban int64)

	// Refund takes back a charge of cost at an earlier instant, as far as it still counts. turn is the turn of a request
	// that could wait, or NoTurn.
	Refund func(s *State, at, turn, cost int64)

	// Ends returns the instant from which a state that has used something equals a new one. If that instant has passed, Ends may
	// return an earlier one.
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

// A State is the state of one limit of one pair while a store decides. The store sets the fields up to Ended, CanBook sets
// behind, and Open the others.
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
	behind int64 // of buckets: how long the siblings make a request wait that books its turn
	used   int64 // requests, or the level of the fullest bucket
}

// inFlight has no state: its pair counts the requests that it holds, whatever their cost.
var inFlight = Row{Name: "in-flight", Open: func(*State) int64 { return 0 }}

// Open opens s, unless the rate is 0.
func (s *State) Open() {
	if l := s.Limit; l.Rate > 0 {
		s.used = l.Row.Open(s)
	}
}

// Fits reports whether the limit admits cost at once, and the pair has no cells.
func (s *State) Fits(cost int64) bool {
	l := s.Limit
	return s.Cells == nil && cost <= l.Capacity && s.used <= (l.Capacity-cost)*l.Period
}

// WaitFor returns how long after s.Now cost fits, from so many microseconds on, or Never.
func (s *State) WaitFor(cost, from int64) int64 {
	l := s.Limit
	for l.Rate > 0 && from < Never { // a grant counts until it ends; at a rate of 0, nothing is admitted, whatever is granted
		granted, stays := s.granted(from)
		if free := l.Capacity - cost + granted; free >= 0 {
			if until, _ := s.untilUsed(free * l.Period); max(from, until) < stays {
				return max(from, until)
			}
		}
		from = stays
	}
	return Never
}

// untilUsed is Row.UntilUsed, or 0 if s has used no more than target now.
func (s *State) untilUsed(target int64) (until, unused int64) {
	if s.used <= target {
		return 0, 0
	}
	return s.Limit.Row.UntilUsed(s, target)
}

// granted returns what the cells grant so many microseconds after s.Now, and for how long after s.Now that stays, or Never.
func (s *State) granted(after int64) (n, stays int64) {
	if s.Cells == nil {
		return 0, Never
	}
	n, until := s.Cells.Granted(s.Limit.Kind, s.Now+after)
	if s.Limit.Algorithm == SlidingLog {
		n = min(n, MaxMembers-s.Limit.Rate)
	}
	if until == Never {
		return n, until
	}
	return n, until - s.Now
}

// Report sets u to what the capacity and the grants leave. If the pair is banned for ban microseconds more, that is nothing: Refill is
// then until there is one request, after the ban.
func (s *State) Report(u *Usage, ban int64) {
	l, granted := s.Limit, int64(0)
	if s.Cells != nil {
		granted, _ = s.granted(0)
	}
	switch missing := u.Set(l, s.used, granted); {
	case !missing:
	case s.Cells == nil: // nearly always
		u.Refill, u.Reset = l.Row.UntilUsed(s, (l.Capacity-u.Remaining-1)*l.Period)
	default:
		if ban > 0 {
			u.Remaining = 0
		}
		u.Refill = s.WaitFor(u.Remaining+1, ban)
		if _, u.Reset = s.untilUsed(0); u.Remaining == 0 { // perhaps not before a grant that takes away has ended
			u.Reset = max(u.Reset, u.Refill)
		}
		u.Refill = min(u.Refill, u.Reset)
	}
}
