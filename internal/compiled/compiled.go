// Package compiled gives the stores of this module the limits of claims and settlements in the units of their algorithms.
package compiled

import "github.com/spillgate/spillgate/internal/algorithm"

// Limits calls Validate of a *core.Claim or a *core.Settlement, and returns its limits compiled. Package core sets it.
var Limits func(of any) ([]algorithm.Limit, error)
