package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// shed admits 100 requests at once, of all clients together. Free ones are denied when 60 are in flight, so 40 places
// are left for customers.
func shed(paying func(*http.Request) bool) core.Rule {
	free := []core.Limit{core.AtOnce(60)}
	return core.Rule{
		Name:   "capacity",
		Key:    keyfunc.Const("all"),
		Limits: []core.Limit{core.AtOnce(100)},
		Tier: func(r *http.Request) []core.Limit {
			if paying(r) {
				return nil // Limits
			}
			return free
		},
	}
}
