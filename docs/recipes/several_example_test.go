package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
)

// several limits each user per second, minute and hour, and each address per minute.
func several(user, ip core.KeyFunc) (*core.Limiter, error) {
	api := core.Rule{
		Name:   "api",
		Key:    user,
		Limits: []core.Limit{core.PerSecond(10), core.PerMinute(120), core.PerHour(1000)},
		Cost: func(r *http.Request) int {
			if core.RoutePattern(r) == "/export" { // however the path is written
				return 10
			}
			return 1
		},
	}
	return core.New([]core.Rule{api, {Name: "address", Key: ip, Limits: []core.Limit{core.PerMinute(600)}}})
}
