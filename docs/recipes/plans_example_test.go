package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
)

// plans allows each user 1,000 requests a day, or 100,000 with the pro plan. planOf reads the plan from your token or database.
func plans(user core.KeyFunc, planOf func(*http.Request) string) core.Rule {
	free := []core.Limit{core.PerDay(1000).Using(core.FixedWindow)}
	pro := []core.Limit{core.PerDay(100_000).Using(core.FixedWindow)}
	return core.Rule{
		Name:   "plan",
		Key:    user,
		Limits: free,
		Tier: func(r *http.Request) []core.Limit {
			if planOf(r) == "pro" {
				return pro
			}
			return nil // Limits
		},
	}
}
