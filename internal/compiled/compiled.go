// Package compiled gives the stores of this module the limits of claims and settlements in the units of their algorithms.
package compiled

import "github.com/spillgate/spillgate/internal/algorithm"

// Limits calls Validate of a *core.Claim or a *core.Settlement, and returns its limits compiled. Package core sets it.
var Limits func(of any) ([]algorithm.Limit, error)

// Full returns the error of a Settle of a []core.Settlement with grants, of which one is more than a sliding log can hold. Package
// core sets it.
var Full func(settlements any) error
