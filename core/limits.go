package core

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A limitSet is the limits of a rule, a tier or a claim, compiled for stores. It never changes.
type limitSet struct {
	limits   []Limit
	compiled []algorithm.Limit
	err      error // not nil if a limit is invalid; then only limits may be used
	smallest int   // capacity, at least 1: the estimated cost of a rule with CostAfter must not deny its request forever
	inFlight bool  // one of them is of requests in flight
}

// newLimitSet compiles limits, which must not change afterwards. It checks them one by one and together: two limits of one rule
// with the same algorithm and period would share their state.
func newLimitSet(limits []Limit) *limitSet {
	s := &limitSet{limits: limits, compiled: make([]algorithm.Limit, len(limits)), smallest: math.MaxInt}
	if len(limits) > maxLimits {
		s.err = invalid("there must be at most %d limits, got %d", maxLimits, len(limits))
		return s
	}
	for i, l := range limits {
		if l.Algorithm == InFlight {
			s.inFlight = true
		} else {
			s.smallest = min(s.smallest, max(l.Capacity(), 1))
		}
		var mistakes error
		s.compiled[i], mistakes = l.compile()
		s.err = allOf(s.err, within(fmt.Sprintf("limit %d", i+1), mistakes))
		for j := range i {
			s.err = allOf(s.err, sameState(j, i, limits[j], l))
		}
	}
	return s
}

// recent caches, by hash, the limit sets that tiers, overrides and claims used recently. Callers may change their
// slices, so each decision looks its limits up by content.
var recent [1024]atomic.Pointer[limitSet]

var seed = maphash.MakeSeed()

// limitSetOf returns limits compiled. It compiles the same limits once, as long as they stay in recent.
func limitSetOf(limits []Limit) *limitSet {
	h := uint64(len(limits))
	for i := range limits {
		l, c := &limits[i], &limits[i].Calendar
		h ^= uint64(l.Rate)<<32 ^ uint64(l.Period) ^ uint64(l.Burst)<<16 ^ uint64(l.Buckets)<<8 ^ uint64(l.Ban)<<4 ^ uint64(l.Algorithm)
		if c.Unit != 0 {
			h ^= maphash.String(seed, c.Zone) ^ uint64(c.From)<<2 ^ uint64(c.Unit)
		}
		h *= 0x9e3779b97f4a7c15
	}
	place := &recent[h>>54]
	if s := place.Load(); s != nil && slices.Equal(s.limits, limits) {
		return s
	}
	s := newLimitSet(slices.Clone(limits))
	place.Store(s)
	return s
}

// of returns limits compiled: s, which may be nil, if a limiter has compiled s from this very slice. The limits of a claim
// that did not pass through a limiter are compiled now.
func (s *limitSet) of(limits []Limit) *limitSet {
	if s != nil && len(s.limits) == len(limits) && (len(limits) == 0 || &s.limits[0] == &limits[0]) {
		return s
	}
	return limitSetOf(limits)
}

// sameState returns an error if limits i and j, which are a and b, would share their state in a pair.
func sameState(i, j int, a, b Limit) error {
	a, b = a.normalized(), b.normalized()
	switch {
	case a.Algorithm != b.Algorithm || a.Period != b.Period || a.Calendar != b.Calendar:
		return nil
	case a.Algorithm == InFlight:
		return invalid("limits %d and %d are both of requests in flight; a rule has one", i+1, j+1)
	case a.Calendar.Unit != 0:
		return invalid("limits %d and %d are both of the same calendar %v; want another unit, time zone or first day for one of them", i+1, j+1, a.Calendar.Unit)
	}
	return invalid("limits %d and %d are both a %v of %v; want another period or algorithm for one of them", i+1, j+1, a.Algorithm, a.Period)
}

// cannotWait returns an error that says under which limits of s no request can wait, unless d is 0.
func (s *limitSet) cannotWait(d time.Duration) (err error) {
	for i := range s.limits {
		if l := &s.limits[i]; d != 0 && !l.canWait() {
			err = allOf(err, invalid("max wait %v needs token buckets without a ban, got limit %d, %v", d, i+1, *l))
		}
	}
	return err
}
