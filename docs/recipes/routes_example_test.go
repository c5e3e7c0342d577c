package recipes

import (
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// perRoute limits each route of the API by itself, and search more strictly.
func perRoute(ip core.KeyFunc) []core.Rule {
	return []core.Rule{
		{Name: "search", Key: ip, Routes: []string{"GET /api/search"}, Limits: []core.Limit{core.PerMinute(20)}},
		{Name: "route", Key: keyfunc.Join(ip, keyfunc.Pattern), Routes: []string{"/api/"}, Limits: []core.Limit{core.PerMinute(60)}},
	}
}
