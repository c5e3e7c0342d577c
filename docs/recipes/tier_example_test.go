package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
)

// planned looks the plan up for each request. If the database is down, the request is judged by the smallest plan.
func planned(user core.KeyFunc, planOf func(*http.Request) ([]core.Limit, error)) core.Rule {
	return core.Rule{
		Name:   "plan",
		Key:    user,
		Limits: []core.Limit{core.PerMinute(60)},
		Tier: func(r *http.Request) []core.Limit {
			limits, err := planOf(r)
			if err != nil {
				return nil // Limits; panic(err) here would respond with 500, core.PerMinute(0) would deny
			}
			return limits
		},
	}
}
