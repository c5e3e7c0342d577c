package core

import (
	"math"
	"slices"
	"time"
)

// Never is the RetryAfter of a cost that can never be admitted. It is the longest Duration, so it is more than any other wait.
const Never time.Duration = math.MaxInt64

// A Result is what one limit says of one claim.
type Result struct {
	Rule        string
	Limit       Limit
	Allowed     bool // whether this limit, by itself, admits the cost; it says so even if another limit denied the request
	DryRun      bool
	Remaining   int           // after the decision; never negative; unchanged by a denied request
	RetryAfter  time.Duration // denied: waiting this long makes the same cost fit; Never if it cannot; 0 if allowed
	RefillAfter time.Duration // until at least Remaining+1 is available; 0 when nothing is missing
	ResetAfter  time.Duration // until the whole capacity is available; 0 when nothing is missing
	At          time.Time     // the store's clock when it decided this claim; on a Redis Cluster each slot has its own
}

// A Decision says whether a request is admitted, and why. One that is kept beyond the request keeps the request that an
// adapter passed on in memory: copy what is needed of a decision to collect it.
type Decision struct {
	Allowed  bool
	At       time.Time // the store's clock when it decided; zero if no rule applied
	Results  []Result  // one per claim and limit, in rule order
	Degraded error     // why the store did not decide: a failure that was tolerated, or an overload; nil if it did

	receipt *receipt // nil if no limiter made the decision
}

// Tightest returns the enforced result that constrains most, the one that headers show: a denied one before an allowed
// one, Never before the longest RetryAfter, else the one with the least share of its capacity remaining. Of equal shares,
// the one that takes longer to recover is tighter: until one more request fits if nothing remains, until the whole
// capacity is available otherwise. Ties go to the first. A limit of requests in flight counts only if it denies. It
// reports false if there is no such result.
func (d Decision) Tightest() (Result, bool) {
	if i := tightest(d.Results); i >= 0 {
		return d.Results[i], true
	}
	return Result{}, false
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

// instantOf returns Decision.At: the instant of the tightest result. Instants differ only if servers with a clock each
// have decided.
func instantOf(results []Result) time.Time {
	for i := 1; i < len(results); i++ {
		if !results[i].At.Equal(results[0].At) {
			return results[max(tightest(results), 0)].At
		}
	}
	if len(results) == 0 {
		return time.Time{}
	}
	return results[0].At
}

// madeBy reports whether l made d, alone or with others.
func (d *Decision) madeBy(l *Limiter) bool {
	return slices.ContainsFunc(d.receipts(), func(c *receipt) bool { return c.limiter == l })
}

// has reports whether a result of d is of rule.
func (d *Decision) has(rule string) bool {
	return slices.ContainsFunc(d.Results, func(r Result) bool { return r.Rule == rule })
}

// receipts returns the receipts of all limiters that made d.
func (d *Decision) receipts() []*receipt {
	switch {
	case d.receipt == nil:
		return nil
	case d.receipt.limiter == nil:
		return d.receipt.extra.joined
	}
	return []*receipt{d.receipt}
}

// tighter reports whether a constrains more than b.
func tighter(a, b *Result) bool {
	switch {
	case a.Allowed != b.Allowed:
		return b.Allowed
	case !a.Allowed:
		return a.RetryAfter > b.RetryAfter
	}
	left, other := int64(a.Remaining)*int64(b.Limit.Capacity()), int64(b.Remaining)*int64(a.Limit.Capacity())
	return left < other || left == other && a.recoverAfter() > b.recoverAfter()
}

// recoverAfter returns the time until one more request fits if nothing remains, else until the whole capacity is available.
func (r *Result) recoverAfter() time.Duration {
	if r.Remaining == 0 {
		return r.RefillAfter
	}
	return r.ResetAfter
}
