package algorithm

// A Row is one algorithm: what a store does with the state of a limit, by the same functions for each algorithm. The
// functions that Lua has as well have the same names there.
//
// Load makes a State of what is stored. The functions that take a Packed need no State: they change what is stored. Where they
// take a Log, it is the log of the state, which may be empty.
type Row struct {
	// Code tells the algorithms apart in a Kind: below 16 and not 1 to 3. A bucket keeps its tick there in memory, and
	// its lows are of code 1 in Redis.
	Code uint64

	// KeepsLog says that a state has a Log as soon as it is charged.
	KeepsLog bool

	// Load sets s, whose Log is set, to what p is at now. The wall clock is ahead of now by offset. If the state
	// remembers the rates that requests name, named says whether l's rate counts as one. Load changes p only as far as
	// a request that is charged nothing must change it: a clock that goes back afterwards has to find what was there.
	Load func(s *State, p *Packed, l *Limit, now, offset int64, named bool)

	// Wait returns how long after now the state admits cost, which is at most the capacity.
	Wait func(s *State, l *Limit, now, cost int64) int64

	// Charge adds cost, whether it fits or not, and stores s in p.
	Charge func(s *State, p *Packed, l *Limit, now, cost int64)

	// Grant adds n requests on top of the limit, or takes them away if n is negative, and stores s in p. It gives back
	// no more than what was used of a bucket. What was used of others stays as it is, so that a refund never becomes a
	// grant.
	Grant func(s *State, p *Packed, l *Limit, now, n int64)

	// Report says what the state leaves.
	Report func(s *State, l *Limit, now int64) Usage

	// Refund takes back a charge of cost at an earlier instant, as far as it still counts.
	Refund func(p *Packed, g *Log, l *Limit, now, at, cost int64)

	// Name has the state remember the rate of a request whatever becomes of that. A peek and the state that several
	// pairs share name no slower rate. Holds says whether the pair holds something. Nil: the states of the algorithm
	// remember no rates.
	Name func(p *Packed, l *Limit, now int64, peek, own, holds bool)

	// Keep has the state say how it is charged when a hold ends. Nil: it says so as it is.
	Keep func(s *State, p *Packed, l *Limit, now int64, own bool)

	// End charges what ended holds are charged, each at its end. L is the limit of a request at now, which may be a
	// peek, or LimitOf.
	End func(p *Packed, g *Log, l *Limit, peek bool, now, offset int64, ended []Ending)

	// Ends returns an instant from which on the state equals one never seen. If that has passed, it may be an earlier one.
	Ends func(p *Packed) int64

	// EndsAfter is Ends if ended is going to be charged to the state.
	EndsAfter func(p *Packed, g *Log, ended []Ending) int64

	// LimitOf returns a limit that says what the state knows of its own: the period, and how it is charged.
	LimitOf func(p *Packed, g *Log) Limit

	// Empty forgets what was charged, but not how the state is charged when a hold ends.
	Empty func(p *Packed, g *Log)
}

// Table has the row of each Algorithm.
var Table = [...]Row{TokenBucket: tokenBucket, FixedWindow: fixedWindow, SlidingWindow: slidingWindow, SlidingLog: slidingLog, InFlight: inFlight, CalendarWindow: calendarWindow}

// rowOf has the rows by the code of a Kind. The state of a bucket may have its tick in place of the code.
var rowOf = func() (rows [codeBits + 1]*Row) {
	for i := range Table {
		if Algorithm(i) != InFlight { // which has no states
			rows[Table[i].Code] = &Table[i]
		}
	}
	for tick := range Units {
		rows[tick] = &Table[TokenBucket]
	}
	return rows
}()

// inFlight counts what its pair holds: it has no state of its own.
var inFlight = Row{
	Load:   func(*State, *Packed, *Limit, int64, int64, bool) {},
	Wait:   func(*State, *Limit, int64, int64) int64 { return 0 },
	Report: func(_ *State, l *Limit, _ int64) Usage { return Usage{Remaining: l.Capacity} },
}
