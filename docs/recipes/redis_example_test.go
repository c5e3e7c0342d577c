package recipes

import (
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
)

// shared returns a limiter that keeps its state in Redis, in keys that begin with the name of the service.
func shared(rules []core.Rule, addr, service string) (*core.Limiter, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	return core.New(rules, core.WithStore(redisstore.New(client, redisstore.WithPrefix(service))))
}
