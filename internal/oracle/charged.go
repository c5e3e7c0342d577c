package oracle

import (
	"slices"

	"github.com/spillgate/spillgate/core"
)

// Settled returns claims, decided with these results, as a Settle that gives them back.
func Settled(claims []core.Claim, results []core.Result) []core.Claim {
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].At = results[0].At
		results = results[len(claims[i].Limits):]
	}
	return claims
}

// Allowed reports whether all results are allowed, so that all claims but peeks were charged.
func Allowed(results []core.Result) bool {
	return !slices.ContainsFunc(results, func(r core.Result) bool { return !r.Allowed })
}

// Charged returns the claims that a take with these results has charged, as a Settle that gives everything back.
func Charged(claims []core.Claim, results []core.Result) (some []core.Claim) {
	for _, r := range results {
		if !r.Allowed && !r.DryRun {
			return nil
		}
	}
	for _, c := range claims {
		fits := !c.Peek
		if len(c.Limits) > 0 {
			c.At = results[0].At
		}
		for range c.Limits {
			fits = fits && results[0].Allowed
			results = results[1:]
		}
		if fits {
			some = append(some, c)
		}
	}
	return some
}
