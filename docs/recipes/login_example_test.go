package recipes

import "github.com/spillgate/spillgate/core"

// loginByAddress counts failed logins only. Five of them in a row ban the address for an hour, and 20 a day are the most.
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
