package recipes

import "github.com/spillgate/spillgate/core"

// tenants limits each tenant to 1,000 requests a minute, and each user in it to 100.
func tenants(tenant, user core.KeyFunc) (*core.Limiter, error) {
	return core.New([]core.Rule{
		{Name: "tenant", Key: tenant, Limits: []core.Limit{core.PerMinute(1000)}},
		{Name: "user", Key: user, Limits: []core.Limit{core.PerMinute(100)}},
	})
}
