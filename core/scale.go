package core

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

// A scale is a Limit in the units that its algorithm counts in.
type scale struct {
	limit    Limit
	err      error  // of Limit.Validate
	kind     uint64 // what finds its state within a pair
	capacity int64
	rate     int64
	micros   int64 // the period, in microseconds
	width    int64 // SlidingWindow: of a sub-bucket, in microseconds

	// TokenBucket: a tick is the finest of µs, ms and s for which a full bucket fits maxExact.
	tick     int64  // microseconds per tick
	period   int64  // the period in ticks, rounded up
	full     int64  // capacity × period: the level of a full bucket
	mark     uint64 // kind, with the tick
	byPeriod divisor
}

// scales remembers the scales of limits seen lately: a look-up instead of a validation and some divisions per decision.
// It is for the whole process, because most stores see the same few limits all the time.
var scales [1024]atomic.Pointer[scale]

// scaleOf returns the scale of l, which may be invalid.
func scaleOf(l *Limit) *scale {
	h := uint64(l.Rate)<<32 ^ uint64(l.Period) ^ uint64(l.Burst)<<16 ^ uint64(l.Buckets)<<8 ^ uint64(l.Algorithm)
	p := &scales[h*0x9e3779b97f4a7c15>>54]
	if s := p.Load(); s != nil && s.is(l) {
		return s
	}
	s := newScale(*l)
	p.Store(s)
	return s
}

// is reports whether s is the scale of l. To compare the fields one by one takes less time than == does.
func (s *scale) is(l *Limit) bool {
	return s.limit.Rate == l.Rate && s.limit.Period == l.Period && s.limit.Burst == l.Burst &&
		s.limit.Algorithm == l.Algorithm && s.limit.Buckets == l.Buckets
}

func newScale(l Limit) *scale {
	s := &scale{limit: l, err: l.Validate(), capacity: int64(l.Capacity()), rate: int64(l.Rate), micros: l.Period.Microseconds()}
	if s.err != nil {
		return s
	}
	s.kind = kindOf(l)
	switch l.Algorithm {
	case TokenBucket:
		s.fitTick()
		s.mark = s.kind&^anyTick | uint64(slices.Index(ticks[:], s.tick))
		s.full = s.capacity * s.period
		s.byPeriod = newDivisor(s.period)
	case SlidingWindow:
		s.width = l.Width().Microseconds()
	}
	return s
}

// fitTick chooses the tick and reports whether there is one.
func (s *scale) fitTick() bool {
	for s.tick = 1; s.tick <= 1_000_000; s.tick *= 1000 {
		s.period = ceilDiv(s.micros, s.tick)
		if hi, lo := bits.Mul64(uint64(s.capacity), uint64(s.period)); hi == 0 && lo <= maxExact {
			return true
		}
	}
	return false
}

func fitsTokenBucket(l Limit) bool {
	s := scale{capacity: int64(l.Capacity()), micros: l.Period.Microseconds()}
	return s.fitTick()
}
