package core

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/memory"
)

// Never is the RetryAfter of a cost that can never be admitted. It is the longest Duration, so it is more than any other wait.
const Never time.Duration = math.MaxInt64

// A Result is the outcome of one limit for one claim.
//
// Its times begin at At. They do not count what the key holds, because the end of a hold is unknown: while it holds something,
// RefillAfter and ResetAfter are at least 1s, and RetryAfter is 1s, as a hint, if only holds deny the cost.
type Result struct {
	Rule        string
	Limit       Limit
	Allowed     bool // whether this limit, by itself, admits the cost, even if another limit denied the request
	DryRun      bool
	Remaining   int           // after the decision; never negative; unchanged by a denied request
	Granted     int           // windows and logs: requests that grants add now; negative if they take away
	Over        int           // windows and logs: requests used beyond the capacity and Granted, as by a settlement
	RetryAfter  time.Duration // denied: after this time the same cost fits; Never if it never will; 0 if allowed
	RefillAfter time.Duration // time until Remaining+1 is available or, if grants end before that, ResetAfter; 0 if nothing is missing
	ResetAfter  time.Duration // time until the whole capacity is available: nothing is used; 0 if nothing is missing
	Wait        time.Duration // allowed: the request may go on this long after At; 0 unless the claim has a MaxWait
	At          time.Time     // the store's clock when it decided this claim; on a Redis Cluster, each identity has its own
}

// set makes r, which is zero, from what a store has answered about the limit l of a claim at an instant.
func (r *Result) set(rule string, l *Limit, dryRun bool, a *memory.Answer, at time.Time) {
	r.setLeft(rule, l, dryRun, &a.Usage.Left, a.Wait-a.Retry, at) // one of them is 0
	r.Granted, r.Over = int(a.Usage.Granted), int(a.Usage.Over)
}

// setLeft is set without what grants add and settlements use beyond the capacity.
func (r *Result) setLeft(rule string, l *Limit, dryRun bool, left *algorithm.Left, wait int64, at time.Time) {
	r.Limit = *l
	r.Rule, r.At = rule, at // the pointers share a write barrier
	r.Allowed, r.DryRun, r.Remaining = wait >= 0, dryRun, int(left.Remaining)
	r.RefillAfter, r.ResetAfter = time.Duration(left.Refill)*time.Microsecond, time.Duration(left.Reset)*time.Microsecond
	if wait >= 0 {
		r.Wait = time.Duration(wait) * time.Microsecond
	} else if r.RetryAfter = Never; -wait < Never.Microseconds() {
		r.RetryAfter = time.Duration(-wait) * time.Microsecond
	}
}

// An answer is a Result in few bytes: what a store has answered about the one limit of a request.
type answer struct {
	at, wait int64 // microseconds; wait is until the turn of an admitted request, or minus the time until a denied one is admitted
	left     algorithm.Left
}

// pack sets p to r, a result of the one limit of a. It reports false if p has no room for r.
func (p *answer) pack(r *Result, a *asked) bool {
	left := algorithm.Left{Remaining: int64(r.Remaining), Refill: r.RefillAfter.Microseconds(), Reset: r.ResetAfter.Microseconds()}
	*p = answer{r.At.UnixMicro(), (r.Wait - r.RetryAfter).Microseconds(), left}
	var back Result
	p.unpack(&back, a)
	return back == *r
}

// unpack sets r, which is zero, to p, the answer to a.
func (p *answer) unpack(r *Result, a *asked) {
	r.setLeft(a.rule.Name, &a.set.limits[0], a.dryRun, &p.left, p.wait, time.UnixMicro(p.at))
}

// tightest returns the index of the tightest result, or -1.
func (d *Decision) tightest() int {
	best := -1
	for i := range d.Results {
		r := &d.Results[i]
		shown := !r.DryRun && (r.Limit.Algorithm != InFlight || !r.Allowed)
		if shown && (best < 0 || tighter(r, &d.Results[best]) || r.RetryAfter == Never && d.IsTooLarge(i) && !d.IsTooLarge(best)) {
			best = i
		}
	}
	return best
}

func tighter(a, b *Result) bool {
	switch {
	case a.Allowed != b.Allowed:
		return b.Allowed
	case !a.Allowed:
		return a.RetryAfter > b.RetryAfter
	}
	left, other := int64(a.Remaining)*int64(b.Quota()), int64(b.Remaining)*int64(a.Quota())
	return left < other || left == other && a.recoverAfter() > b.recoverAfter()
}

// Quota returns the number that Remaining counts down from: the capacity plus what is granted. In windows and logs, it is
// at least what was used; a token bucket may have used more. The difference to Remaining is what a client sees as used.
func (r *Result) Quota() int { return r.Limit.Capacity() + r.Granted + r.Over }

// recoverAfter returns the time until one more request fits if nothing remains, else until the whole capacity is available.
func (r *Result) recoverAfter() time.Duration {
	if r.Remaining == 0 {
		return r.RefillAfter
	}
	return r.ResetAfter
}

// instant returns d.At: the instant of the tightest result. Instants differ only if several servers have decided.
func (d *Decision) instant() (at time.Time) {
	for i := range d.Results {
		if at = d.Results[i].At; at != d.Results[0].At { // one store sets the same Time in all; Equal takes longer
			return d.Results[max(d.tightest(), 0)].At
		}
	}
	return at
}

// availableAfter returns a time after which at least cost is available. The time is exact for a TokenBucket and for a
// cost of at most Remaining+1; otherwise it may be too long.
func (r *Result) availableAfter(cost int) time.Duration {
	switch missing := time.Duration(cost - r.Remaining); {
	case missing <= 0, r.Limit.Algorithm == InFlight: // what is in flight ends with the request
		return 0
	case r.Granted != 0 && cost > r.Limit.Capacity(): // once the grants have ended, it never fits
		return Never
	case r.Granted != 0 && r.Limit.Algorithm != FixedWindow: // each grant ends within a period
		return max(r.ResetAfter, r.Limit.Period)
	case missing == 1:
		return r.RefillAfter
	case cost <= r.Limit.Capacity():
		if l, err := r.Limit.compile(); err == nil && l.Algorithm == algorithm.TokenBucket {
			return min(r.ResetAfter, r.RefillAfter+refill(&l, int64(missing-1)))
		}
	}
	return r.ResetAfter
}

// refill returns how long a token bucket takes to refill requests: whole ticks.
func refill(l *algorithm.Limit, requests int64) time.Duration {
	return time.Duration(algorithm.CeilDiv(requests*l.Period, l.Rate)*l.Unit) * time.Microsecond
}

// availableAfterCharge is availableAfter for a cost that is held, and is charged soon after r.At. It may be too long.
func (r *Result) availableAfterCharge(cost int) time.Duration {
	wait, missing := r.availableAfter(cost), int64(cost-r.Remaining)
	if missing <= 0 {
		return wait
	}
	charged := r.Limit.Period
	switch l, err := r.Limit.compile(); {
	case err != nil:
	case l.Algorithm == algorithm.FixedWindow: // also of a calendar
		at := r.At.UnixMicro()
		charged = time.Duration(algorithm.Window{}.Advance(&l, at, 0).End-at) * time.Microsecond
	case l.Algorithm == algorithm.SlidingWindow:
		charged += r.Limit.Width()
	case l.Algorithm == algorithm.TokenBucket:
		charged = refill(&l, missing)
		if r.Remaining == 0 {
			charged = max(charged, r.Limit.Ban+refill(&l, missing-1))
		}
	}
	return max(wait, charged)
}
