package oracle

import (
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Settlement returns the Settlement that gives back what c was charged, or held, at an instant.
func Settlement(c core.Claim, at time.Time) core.Settlement {
	return core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: at, Cost: c.Cost, DryRun: c.DryRun, Held: c.Hold, Lease: c.Lease, MaxWait: c.MaxWait}
}

// each returns the settlements that give back a claim with these results: one for each limit if the claim may wait,
// because each limit has a wait of its own.
func each(c core.Claim, results []core.Result) (some []core.Settlement) {
	if c.MaxWait == 0 {
		return []core.Settlement{Settlement(c, results[0].At)}
	}
	for i, r := range results {
		s := Settlement(c, r.At)
		s.Limits, s.Wait = c.Limits[i:i+1], r.Wait
		some = append(some, s)
	}
	return some
}

// Settled returns the settlements that give back what claims with these results were charged. It leaves out peeks.
func Settled(claims []core.Claim, results []core.Result) (some []core.Settlement) {
	for _, c := range claims {
		if !c.Peek {
			some = append(some, each(c, results[:len(c.Limits)])...)
		}
		results = results[len(c.Limits):]
	}
	return some
}

// Allowed reports whether all results are allowed, so that all claims but peeks were charged.
func Allowed(results []core.Result) bool {
	return !slices.ContainsFunc(results, func(r core.Result) bool { return !r.Allowed })
}

// Charged returns the settlements that give back what a take with these results has charged.
func Charged(claims []core.Claim, results []core.Result) (some []core.Settlement) {
	for _, r := range results {
		if !r.Allowed && !r.DryRun {
			return nil
		}
	}
	for _, c := range claims {
		own := results[:len(c.Limits)]
		results = results[len(own):]
		if !c.Peek && Allowed(own) {
			some = append(some, each(c, own)...)
		}
	}
	return some
}
