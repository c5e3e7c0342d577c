package redisx

import (
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
)

// setUsages stores what the store reported for the limits of e after a grant.
func (e *leaseEntry) setUsages(usages []usage, now int64) {
	for i := range usages {
		e.setAfter(i, len(usages), usages[i].Usage, now)
	}
}

// hear stores what the store answered to a request, unless what e says already is of a later instant. Calls overtake each other: a
// grant that is in flight may have been decided before.
func (e *leaseEntry) hear(results []core.Result, now int64) {
	if e.grantInFlight() != nil {
		if a := e.rare.answer; a == nil || isNewer(results, a[0].At.UnixMicro(), a[0].Remaining) {
			e.rare.answer = slices.Clone(results)
		}
	}
	if e.ends[0] == 0 || !isNewer(results, e.at[e.newest()], int(e.stored)) {
		return
	}
	for i := range results {
		r := &results[i]
		u := algorithm.Usage{Remaining: int64(r.Remaining), Refill: r.RefillAfter.Microseconds(), Reset: r.ResetAfter.Microseconds()}
		e.setAfter(i, len(results), u, now)
	}
}

// isNewer reports whether results are of a later instant than what the store said at another one. Within an instant fewer remain
// later, or as many.
func isNewer(results []core.Result, at int64, remaining int) bool {
	of := results[0].At.UnixMicro()
	return of > at || of == at && results[0].Remaining < remaining
}

// setAfter stores what the store reported for one limit of n.
func (e *leaseEntry) setAfter(limit, n int, u algorithm.Usage, now int64) {
	a := after{uint32(min(u.Remaining, math.MaxUint32)), later(now, u.Refill), later(now, u.Reset)}
	if limit == 0 {
		e.stored, e.refill, e.reset = a.stored, a.refill, a.reset
		return
	}
	if e.ensureRare().others == nil {
		e.rare.others = make([]after, n-1)
	}
	e.rare.others[limit-1] = a
}

// later returns the instant that is wait microseconds after now. A wait beyond a hundred years is cut, so that the sum fits.
func later(now, wait int64) int64 { return now + 1000*min(wait, math.MaxInt64/3000) }

// after returns what the store last reported for a limit of e.
func (e *leaseEntry) after(limit int) after {
	if limit == 0 {
		return after{e.stored, e.refill, e.reset}
	}
	return e.rare.others[limit-1]
}

// appendResults appends the results of c, which e has admitted. There must be a portion. mark is the instant at which the portion
// was charged that the request was taken from.
func (e *leaseEntry) appendResults(dst []core.Result, c *core.Claim, now, mark int64) []core.Result {
	at := time.UnixMicro(e.instant(now, e.terms.length)).Add(markOf(mark))
	left := e.available()
	for i, l := range c.Limits {
		a := e.after(i)
		r := core.Result{Rule: ruleName(c.Rule), Limit: l, Allowed: true, At: at, Remaining: int(min(int64(a.stored)+left, int64(l.Capacity())))}
		if r.Remaining < l.Capacity() {
			r.RefillAfter, r.ResetAfter = until(a.refill, now), until(a.reset, now)
		}
		dst = append(dst, r)
	}
	return dst
}

// until returns how long after now an instant is, in whole microseconds and at least one.
func until(at, now int64) time.Duration {
	return max(time.Microsecond, (time.Duration(at-now) + time.Microsecond - 1).Truncate(time.Microsecond))
}

// markOf returns the nanoseconds, 1 to 999, that are added to the instant of a request decided from a lease. They mark the portion,
// by the instant at which it was charged. Instants of a server are whole microseconds.
func markOf(at int64) time.Duration { return 1 + time.Duration(at%999) }

// markIn returns the mark of an instant, or 0 if it is one of a server.
func markIn(at time.Time) time.Duration { return time.Duration(at.Nanosecond() % 1000) }
