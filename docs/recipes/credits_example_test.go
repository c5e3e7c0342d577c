package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
)

// credits charges a customer 25 credits for an export, unless it fails on our side before the response has begun.
func credits(customer core.KeyFunc) core.Rule {
	return core.Rule{
		Name:   "credits",
		Key:    customer,
		Routes: []string{"POST /export"},
		Limits: []core.Limit{core.PerDay(1000)},
		Cost:   func(*http.Request) int { return 25 },
		CostAfter: func(_ *http.Request, o core.Outcome) int {
			if o.Status >= 500 {
				return 0
			}
			return o.Cost
		},
	}
}
