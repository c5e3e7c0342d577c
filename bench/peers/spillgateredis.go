package peers

import (
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
)

// SpillgateRedis is Limiter.Take on top of a redisstore, with its deadline and its breaker.
func SpillgateRedis(l Limit, client redis.UniversalClient) *Store {
	return Limiting("spillgate", redisstore.New(client), l)
}

// SpillgateRedisStore is a redisstore, called as a Limiter calls it.
func SpillgateRedisStore(l Limit, client redis.UniversalClient) *Store {
	return Claiming("spillgate, store alone", redisstore.New(client), []string{"default"}, []core.Limit{l.core()})
}

// SpillgateDenyCache is Limiter.Take on top of a redisstore that remembers which keys are denied.
func SpillgateDenyCache(l Limit, client redis.UniversalClient) *Store {
	return Limiting("spillgate", redisstore.New(client, redisstore.WithDenyCache(10_000)), l)
}

// SpillgateRedisMany takes all of limits for two identities in one decision.
func SpillgateRedisMany(limits []Limit, client redis.UniversalClient) *Store {
	return LimitingSix("spillgate", redisstore.New(client), limits)
}
