package oracle

import "github.com/spillgate/spillgate/core"

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
