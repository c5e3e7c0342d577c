package recipes

import "github.com/spillgate/spillgate/core"

// loginByAddress counts failed logins only. Five of them in a row ban the address for an hour. Slow guessing gets 20 guesses a
// day, after the first 20.
func loginByAddress(ip core.KeyFunc) core.Rule {
	return core.Rule{
		Name:      "login",
		Key:       ip,
		Routes:    []string{"POST /login"},
		Limits:    core.MustParseLimits("5/10m;ban=1h, 20/d"),
		CostAfter: core.Failures,
		OnFailure: core.FailClosed,
	}
}
