package leases

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
)

// tenantLimiter admits 50,000 requests per second of a tenant, over all processes that share a Redis. tenant says whose a
// request is.
func tenantLimiter(client redis.UniversalClient, tenant core.KeyFunc) (*core.Limiter, error) {
	rule := core.Rule{
		Name:   "tenant",
		Key:    tenant,
		Limits: []core.Limit{core.PerSecond(50_000)},
		Lease:  100 * time.Millisecond,
	}
	return core.New([]core.Rule{rule}, core.WithStore(redisstore.New(client)))
}
