package algorithm

// A Row is one algorithm: the functions that a store applies to the state of a limit. The functions in Lua have the same
// names. Open comes before Charge, Book and Report.
type Row struct {
	// Code tells the algorithms apart in a Kind: a multiple of 4 below 16.
	Code uint64

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

	// Report says what s leaves.
	Report func(s *State) Usage

	// Ends returns the instant from which the state equals a new one. If that instant has passed, Ends may return an
	// earlier one.
	Ends func(r *Record) int64
}

// Table has the row of each Algorithm.
var Table = [...]Row{TokenBucket: tokenBucket, FixedWindow: fixedWindow, SlidingWindow: slidingWindow, SlidingLog: slidingLog, InFlight: inFlight}

const (
	// Never is the wait of a cost that can never be admitted.
	Never = -1

	// NoTurn is the turn of a request that could not wait.
	NoTurn = -1
)

// inFlight measures what its pair holds, which the pair counts.
var inFlight = Row{
	Counts: true,
	Open: func(s *State, cost int64) int64 {
		if cost > s.Limit.Capacity {
			return Never
		}
		return 0
	},
	Charge: func(*State, int64) {},
	Refund: func(*State, int64, int64, int64) {},
	Report: func(s *State) Usage { return Usage{Remaining: s.Limit.Capacity} },
}
