package recipes

import "github.com/spillgate/spillgate/core"

// uploads allows each user two uploads at a time, and 60 an hour.
func uploads(user core.KeyFunc) core.Rule {
	return core.Rule{
		Name:   "uploads",
		Key:    user,
		Routes: []string{"POST /uploads"},
		Limits: []core.Limit{core.AtOnce(2), core.PerHour(60)},
	}
}
