package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
)

// plans admits 1,000 requests a day of each user, and 100,000 of one with the pro plan. planOf asks your own database or token.
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
