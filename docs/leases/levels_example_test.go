package leases

import (
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
)

// alone limits what this process serves.
func alone(rules []core.Rule) (*core.Limiter, error) { return core.New(rules) }

// together limits all processes that use the same Redis. One address is a server, several are a Cluster.
func together(rules []core.Rule, addrs ...string) (*core.Limiter, error) {
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	return core.New(rules, core.WithStore(redisstore.New(client)))
}
