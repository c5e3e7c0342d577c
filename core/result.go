package core

import (
	"math"
	"time"
)

// Never is the RetryAfter of a cost that can never be admitted. It is the longest Duration, so it is more than any other wait.
const Never time.Duration = math.MaxInt64

// A Result is the outcome of one limit for one claim.
type Result struct {
	Rule        string
	Limit       Limit
	Allowed     bool // whether this limit, by itself, admits the cost, even if another limit denied the request
	DryRun      bool
	Remaining   int           // after the decision; never negative; unchanged by a denied request
	RetryAfter  time.Duration // denied: after this time the same cost fits; Never if it never will; 0 if allowed
	RefillAfter time.Duration // time until at least Remaining+1 is available; 0 if the whole capacity is available
	ResetAfter  time.Duration // time until the whole capacity is available; 0 if it is available now
	Wait        time.Duration // allowed: the request may go on this long after At; 0 unless the claim has a MaxWait
	At          time.Time     // the store's clock when it decided this claim; on a Redis Cluster each slot has its own
}

// tightest returns the index of the tightest of results, or -1.
func tightest(results []Result) int {
	best := -1
	for i := range results {
		r := &results[i]
		shown := !r.DryRun && (r.Limit.Algorithm != InFlight || !r.Allowed)
		if shown && (best < 0 || tighter(r, &results[best])) {
			best = i
		}
	}
	return best
}

// tighter reports whether a constrains more than b.
func tighter(a, b *Result) bool {
	switch {
	case a.Allowed != b.Allowed:
		return b.Allowed
	case !a.Allowed:
		return a.RetryAfter > b.RetryAfter
	}
	left, other := int64(a.Remaining)*int64(b.most()), int64(b.Remaining)*int64(a.most())
	return left < other || left == other && a.recoverAfter() > b.recoverAfter()
}

// most returns the number that r counts down from: the capacity, or Remaining if a grant has made that larger.
func (r *Result) most() int { return max(r.Limit.Capacity(), r.Remaining) }

// recoverAfter returns the time until one more request fits if nothing remains, else until the whole capacity is available.
func (r *Result) recoverAfter() time.Duration {
	if r.Remaining == 0 {
		return r.RefillAfter
	}
	return r.ResetAfter
}

// instantOf returns Decision.At: the instant of the tightest result. The instants differ only if several servers
// decided, each by its own clock.
func instantOf(results []Result) time.Time {
	for i := 1; i < len(results); i++ {
		if results[i].At != results[0].At { // one store sets the same Time in all; Equal takes longer
			return results[max(tightest(results), 0)].At
		}
	}
	if len(results) == 0 {
		return time.Time{}
	}
	return results[0].At
}

// availableAfter returns a time after which at least cost is available. The time is exact for a TokenBucket and for a
// cost of at most Remaining+1; otherwise it may be too long.
func (r *Result) availableAfter(cost int) time.Duration {
	switch missing := time.Duration(cost - r.Remaining); {
	case missing <= 0, r.Limit.Algorithm == InFlight: // what is in flight ends with the request
		return 0
	case missing == 1:
		return r.RefillAfter
	case r.Limit.Algorithm == TokenBucket && r.Limit.Calendar.Unit == 0 && r.Limit.Rate > 0:
		rate := time.Duration(r.Limit.Rate)
		perRequest := (r.Limit.Period + rate - 1) / rate
		if missing-1 <= r.ResetAfter/perRequest {
			return min(r.ResetAfter, r.RefillAfter+(missing-1)*perRequest)
		}
	}
	return r.ResetAfter
}
