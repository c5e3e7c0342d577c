package algorithm

import "math/bits"

// A Limit is a limit in the units of its algorithm. Compile computes the fields below Windows from the fields above.
type Limit struct {
	Algorithm Algorithm
	Rate      int64
	Capacity  int64  // 0 if Rate is
	Micros    int64  // the period; 0 for a calendar
	Width     int64  // SlidingWindow: of a sub-bucket, in microseconds
	Calendar  uint64 // FixedWindow without a period: the calendar, from CalendarID
	Ban       int64  // TokenBucket: length of the ban that follows a charge that uses up the limit, in microseconds; 0 for none

	// Windows returns the window of the calendar that an instant of the wall clock lies in.
	Windows func(at int64) (start, end int64)

	Row     *Row   // of Algorithm
	Kind    uint64 // finds the states of the limit within a pair: its algorithm, and its period or calendar
	Sibling uint32 // finds its own: the rate of a bucket, the number of sub-buckets of a sliding window, else 0

	Full   int64 // Capacity × Period: what is used if nothing is left
	Period int64 // what one request uses: 1, or of a TokenBucket the period in ticks, rounded up

	// TokenBucket: a tick is the finest of µs, ms and s in which a full bucket and a banned bucket fit MaxExact.
	Unit int64  // microseconds per tick
	Code uint64 // of Unit: where it is in Units
}

// Units are the microseconds of each tick.
var Units = [...]int64{1, 1000, 1_000_000}

// CellsKind is the kind of the record with the cells of a pair. The kind of a limit with states contains a period.
const CellsKind = 0

// Compile returns l with its computed fields. It reports false if there is no tick in which a full and a banned bucket
// of l fit MaxExact.
func Compile(l Limit) (Limit, bool) {
	l.Row, l.Full, l.Period = &Table[l.Algorithm], l.Capacity, 1
	l.Kind = (uint64(l.Micros)|l.Calendar)<<codeBits | uint64(l.Algorithm)<<2
	switch l.Algorithm {
	case TokenBucket:
		l.Sibling = uint32(l.Rate)
		return l.withUnit()
	case SlidingWindow:
		l.Sibling = uint32(CeilDiv(l.Micros, l.Width))
	case InFlight:
		l.Kind = CellsKind // where its holds are
	}
	return l, true
}

// firstCalendar is greater than any period.
const firstCalendar = 3 << 47

// CalendarID returns a number that identifies a calendar: a unit, 1 to 4; the day on which windows start, 0 to 31; and
// a time zone, by 39 bits of a hash of its name (FNV-1a).
func CalendarID(unit, from uint64, zone string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(zone) {
		h = (h ^ uint64(zone[i])) * 1099511628211
	}
	return firstCalendar | unit | from<<3 | h>>25<<8
}

// IsCharged reports whether requests are charged to l: not if it counts them in flight, or admits none.
func (l *Limit) IsCharged() bool { return l.Rate > 0 && l.Algorithm != InFlight }

// Leasable reports whether requests of l may be charged ahead and given back exactly.
func (l *Limit) Leasable() bool {
	return l.Algorithm == FixedWindow || l.Algorithm == TokenBucket && l.Ban == 0
}

func (l Limit) withUnit() (Limit, bool) {
	for i, unit := range Units {
		l.Unit, l.Code = unit, uint64(i)
		l.Period = CeilDiv(l.Micros, l.Unit)
		hi, full := bits.Mul64(uint64(l.Capacity), uint64(l.Period))
		if hi > 0 || full > MaxExact {
			continue
		}
		l.Full = int64(full)
		if l.Ban == 0 || fits(l.Full-l.Period, l.Rate, CeilDiv(l.Ban, l.Unit)) {
			return l, true
		}
	}
	return l, false
}

// A Usage describes a state for its limit.
type Usage struct {
	Left
	Granted int64 // of windows and logs: what grants add now; negative if they take away
	Over    int64 // of windows and logs: what is used beyond the rate and Granted
}

// Left is what a state leaves of its limit: requests, and waits in microseconds.
type Left struct {
	Remaining int64
	Refill    int64 // until Remaining is one more or, if grants end before that, until nothing is used
	Reset     int64 // until nothing is used and something remains
}

// Set sets u to what is left of a limit of which so much is used, without waits, and reports whether anything is missing.
func (u *Usage) Set(l *Limit, used, granted int64) (missing bool) {
	*u = Usage{}
	if l.Rate == 0 { // nothing is admitted, whatever is granted
		return false
	}
	free := l.Full - used
	if l.Row.Book == nil {
		u.Granted, u.Over = granted, max(0, -free-granted)
	}
	u.Remaining = max(0, free/l.Period+granted)
	return used > 0 || u.Remaining == 0
}

// Hold takes away what is held, and what does not fit while the pair is banned for ban microseconds more. The end of a hold is
// unknown.
func (u *Usage) Hold(held, ban int64) {
	least := ban
	if held > 0 {
		u.Remaining = max(0, u.Remaining-held)
		least = max(least, HoldHint)
	}
	if ban > 0 {
		u.Remaining = 0
	}
	u.Refill, u.Reset = max(u.Refill, least), max(u.Reset, least)
}
