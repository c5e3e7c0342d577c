package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// A Plan is what a customer has bought.
type Plan struct {
	PerMonth   int
	BillingDay int // 1 to 31
	Zone       string
}

// sell serves api to customers who have bought a number of requests per month, from their own billing day on, and at
// most 2,000 a day. GET /usage tells them what is left, and costs nothing. A partner has other limits than its plan.
func sell(customer core.KeyFunc, planOf func(*http.Request) Plan, store core.Store, api http.Handler) (http.Handler, *core.Limiter, error) {
	limiter, err := core.New([]core.Rule{{
		Name:   "plan",
		Key:    customer,
		Limits: []core.Limit{core.PerMonth(100)},
		Tier: func(r *http.Request) []core.Limit {
			p := planOf(r)
			month := core.PerMonth(p.PerMonth).In(p.Zone).From(p.BillingDay)
			return []core.Limit{month, core.PerDay(2000).In(p.Zone)}
		},
		Override: func(key string) []core.Limit {
			if key == "user:partner" {
				return []core.Limit{core.PerMonth(1_000_000)}
			}
			return nil // Tier
		},
	}}, core.WithStore(store))
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", stdlib.New(limiter)(api))
	mux.Handle("GET /usage", stdlib.NewUsage(limiter, "plan"))
	return mux, limiter, nil
}
