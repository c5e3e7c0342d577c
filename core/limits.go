package core

import (
	"slices"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A limitSet is the limits of a rule, a tier or a claim, compiled for stores. It never changes.
type limitSet struct {
	limits   []Limit
	compiled []algorithm.Limit
	err      error // not nil if a limit is invalid; then compiled must not be used
	waits    bool  // requests can wait for their turn under all of them
	inFlight bool  // one of them is of requests in flight
}

// newLimitSet compiles limits, which must not change afterwards.
func newLimitSet(limits []Limit) *limitSet {
	s := &limitSet{limits: limits, compiled: make([]algorithm.Limit, len(limits)), err: validateLimits(limits), waits: true}
	for i := range limits {
		s.waits = s.waits && limits[i].canWait()
		s.inFlight = s.inFlight || limits[i].Algorithm == InFlight
		s.compiled[i] = compile(&limits[i]).Limit
	}
	return s
}

// recent caches the limit sets that tiers and callers of stores used recently, by hash. Callers may change their
// slices, so each decision looks its limits up by content.
var recent [1024]atomic.Pointer[limitSet]

// limitSetOf returns limits compiled. It compiles the same limits once, unless another set has taken their place in
// recent.
func limitSetOf(limits []Limit) *limitSet {
	h := uint64(len(limits))
	for i := range limits {
		l := &limits[i]
		h = (h ^ uint64(l.Rate)<<32 ^ uint64(l.Period) ^ uint64(l.Burst)<<16 ^ uint64(l.Buckets)<<8 ^ uint64(l.Algorithm) ^ l.Calendar.hash()) * 0x9e3779b97f4a7c15
	}
	place := &recent[h>>54]
	if s := place.Load(); s != nil && slices.Equal(s.limits, limits) {
		return s
	}
	s := newLimitSet(slices.Clone(limits))
	place.Store(s)
	return s
}

// isOf reports whether s, which may be nil, was compiled from this very slice.
func (s *limitSet) isOf(limits []Limit) bool {
	return s != nil && len(s.limits) == len(limits) && (len(limits) == 0 || &s.limits[0] == &limits[0])
}

// A compiled is a Limit in the units of its algorithm.
type compiled struct {
	algorithm.Limit
	err error // not nil if the limit is invalid
}

// compile returns l compiled. If l is invalid, err is set.
func compile(l *Limit) *compiled {
	c := new(compiled)
	c.Limit, c.err = l.compile()
	return c
}

// compile returns l in the units of its algorithm, or an error if l is invalid.
func (l Limit) compile() (algorithm.Limit, error) {
	if err := l.validate(); err != nil {
		return algorithm.Limit{}, err
	}
	c := algorithm.Limit{
		Algorithm: algorithm.Algorithm(l.Algorithm), Rate: int64(l.Rate), Capacity: int64(l.Capacity()),
		Micros: l.Period.Microseconds(), Ban: l.Ban.Microseconds(),
	}
	switch {
	case l.Calendar.Unit != 0:
		c.Algorithm, c.Calendar, c.Windows = algorithm.FixedWindow, l.Calendar.id(), l.Calendar.windows()
	case l.Algorithm == SlidingWindow:
		c.Width = l.Width().Microseconds()
	}
	c, fits := algorithm.Compile(c)
	switch {
	case fits:
		return c, nil
	case l.Ban > 0:
		return c, invalid("capacity %d over period %v and a ban of %v would overflow; want one of them smaller", l.Capacity(), l.Period, l.Ban)
	}
	return c, invalid("capacity %d over period %v would overflow; want one of them smaller", l.Capacity(), l.Period)
}
