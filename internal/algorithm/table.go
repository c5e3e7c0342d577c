package algorithm

// A Row is one algorithm: the functions that a store applies to the state of a limit. The functions in Lua have the same
// names; EndsAfter is ends with an instant there.
//
// Load comes before Wait, Charge, Grant and Report. A Log argument is the log of the state, which may be empty.
type Row struct {
	// Code tells the algorithms apart in a Kind: even, below 16 and not 2. A bucket keeps its tick there in memory, and
	// Redis adds 1 for a limit that a held claim has named.
	Code uint64

	// KeepsLog says that a charged state has a Log.
	KeepsLog bool

	// Load sets s to what is stored, as it is at s.Now. Load changes what is stored only as far as a request that is
	// charged nothing must change it, because the clock may go back afterwards.
	Load func(s *State)

	// Wait returns how long after s.Now the state admits cost, or Never.
	Wait func(s *State, cost int64) int64

	// Charge adds cost, whether it fits or not, and stores s.
	Charge func(s *State, cost int64)

	// Grant adds n requests on top of the limit, or takes them away if n is negative, and stores s. A bucket gets back
	// at most what was used. In other states, what was used stays unchanged, so that a refund never becomes a grant, and
	// each grant ends by itself: with the window, or one period from now.
	Grant func(s *State, n int64)

	// Report says what the state leaves.
	Report func(s *State) Usage

	// Refund takes back a charge of cost at an earlier instant, as far as it still counts.
	Refund func(p *Packed, g *Log, l *Limit, now, at, cost int64)

	// NameRate records the rate of a request in what is stored, whether or not the request is admitted. A peek does not
	// record a slower rate, and neither does a state that several pairs share. holds says whether the pair holds
	// anything. Nil: the states of the algorithm record no rates.
	NameRate func(s *State, holds bool)

	// Keep records in what is stored how to charge it when a hold ends. Nil: the state needs no such record.
	Keep func(s *State)

	// Finish charges each ended hold at its end. l is the limit of a request at now, which may be a peek, or the result of
	// LimitOf.
	Finish func(p *Packed, g *Log, l *Limit, peek bool, now, offset int64, ended []Ending)

	// Ends returns the instant from which the state equals a new one. If that instant has passed, Ends may return an
	// earlier one.
	Ends func(p *Packed) int64

	// EndsAfter is Ends if ended is going to be charged to the state.
	EndsAfter func(p *Packed, g *Log, ended []Ending) int64

	// LimitOf returns a limit made from the state itself: with its period, and how it is charged.
	LimitOf func(p *Packed, g *Log) Limit

	// Forget forgets what was charged, but not how to charge the state when a hold ends.
	Forget func(p *Packed, g *Log)
}

// Table has the row of each Algorithm.
var Table = [...]Row{TokenBucket: tokenBucket, FixedWindow: fixedWindow, SlidingWindow: slidingWindow, SlidingLog: slidingLog, InFlight: inFlight}

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
	Load: func(*State) {},
	Wait: func(s *State, cost int64) int64 {
		if cost > s.Limit.Capacity {
			return Never
		}
		return 0
	},
	Report: func(s *State) Usage { return Usage{Remaining: s.Limit.Capacity} },
}
