package peers

import (
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
)

// SpillgateRedis is a redisstore, called as a limiter calls it.
func SpillgateRedis(l Limit, client redis.UniversalClient) *Store {
	return Claiming("spillgate", redisstore.New(client), []string{"default"}, []core.Limit{l.core()})
}

// SpillgateRedisLimiter is a Limiter on top of a redisstore, with its deadline and its breaker.
func SpillgateRedisLimiter(l Limit, client redis.UniversalClient) *Store {
	return Limiting("spillgate Limiter", redisstore.New(client), l)
}

// SpillgateDenyCache is a redisstore that remembers which keys are denied.
func SpillgateDenyCache(l Limit, client redis.UniversalClient) *Store {
	s := redisstore.New(client, redisstore.WithDenyCache(10_000))
	return Claiming("spillgate", s, []string{"default"}, []core.Limit{l.core()})
}

// SpillgateRedisMany takes all of limits for two identities in one decision.
func SpillgateRedisMany(limits []Limit, client redis.UniversalClient) *Store {
	var all []core.Limit
	for _, l := range limits {
		all = append(all, l.core())
	}
	return Claiming("spillgate", redisstore.New(client), []string{"ip", "user"}, all)
}
