package algorithm

import "math/bits"

// An Algorithm measures a rate. The numbers are those of core.Algorithm.
type Algorithm uint8

const (
	TokenBucket Algorithm = iota
	FixedWindow
	SlidingWindow
	SlidingLog
)

// minBuckets is how many sub-buckets a SlidingWindow has at least.
const minBuckets = 2

// A Limit is a limit in the units that its algorithm counts in. Compile fills in what the first lines do not say.
type Limit struct {
	Algorithm Algorithm
	Rate      int64
	Capacity  int64
	Micros    int64 // the period
	Width     int64 // SlidingWindow: of a sub-bucket, in microseconds

	Kind uint64 // finds the state of the limit within a pair

	// TokenBucket: a tick is the finest of µs, ms and s for which a full bucket fits MaxExact.
	Unit   int64  // microseconds per tick
	Code   uint64 // of Unit: where it is in Units
	Period int64  // the period in ticks, rounded up
	Full   int64  // Capacity × Period: the level of a full bucket
}

// Units are the microseconds of each tick.
var Units = [...]int64{1, 1000, 1_000_000}

// Compile returns l complete. It reports false if a full bucket of l fits MaxExact in no tick.
func Compile(l Limit) (Limit, bool) {
	l.Kind = uint64(l.Micros)<<4 | uint64(l.Algorithm)<<2
	if l.Algorithm != TokenBucket {
		return l, true
	}
	for i, tick := range Units {
		l.Unit, l.Code = tick, uint64(i)
		l.Period = CeilDiv(l.Micros, l.Unit)
		if hi, lo := bits.Mul64(uint64(l.Capacity), uint64(l.Period)); hi == 0 && lo <= MaxExact {
			l.Full = int64(lo)
			return l, true
		}
	}
	return l, false
}

// A Usage is what a state says of its limit: requests, and waits in microseconds.
type Usage struct {
	Remaining int64
	Refill    int64 // until Remaining is one more
	Reset     int64 // until it is the capacity
}
