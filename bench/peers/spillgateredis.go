package peers

import (
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/keyfunc"
)

// SpillgateRedis is Limiter.Take on top of a redisstore, with its deadline and its breaker.
func SpillgateRedis(l Limit, client redis.UniversalClient) *Store {
	return Limiting("spillgate", redisstore.New(client), l)
}

// SpillgateNoDenyCache is Limiter.Take on top of a redisstore that asks Redis again for keys that are denied.
func SpillgateNoDenyCache(l Limit, client redis.UniversalClient) *Store {
	return Limiting("spillgate", redisstore.New(client, redisstore.WithDenyCache(0)), l)
}

// SpillgateRedisMany takes all of limits for two identities in one decision.
func SpillgateRedisMany(limits []Limit, client redis.UniversalClient) *Store {
	return LimitingSix("spillgate", redisstore.New(client), limits)
}

// SpillgateRedisRules is Limiter.Take of a claim of each of rules, all with the same key and a random cost of at most mostCost, on top
// of a redisstore.
func SpillgateRedisRules(rules []core.Rule, mostCost int, client redis.UniversalClient) *Store {
	limiter := core.Must(core.New(rules, core.WithStore(redisstore.New(client)), core.WithTimeout(storeTimeout)))
	return &Store{Name: "spillgate", Worker: func() Take {
		claims := make([]core.Claim, len(rules))
		for i, r := range rules {
			claims[i].Rule = r.Name
		}
		return func(key string) bool {
			cost := 1 + rand.IntN(mostCost)
			for i := range claims {
				claims[i].Key, claims[i].Cost = key, cost
			}
			d, err := limiter.Take(background, claims...)
			return d.Allowed && d.Degraded == nil && err == nil
		}
	}}
}

// SpillgateLeasing is Limiter.Take on top of a redisstore, by a rule that leases its keys for so long.
func SpillgateLeasing(l Limit, lease time.Duration, client redis.UniversalClient, opts ...redisstore.Option) *Store {
	rule := core.Rule{Name: "default", Key: keyfunc.RemoteIP, Limits: []core.Limit{l.core()}, Lease: lease}
	limiter := core.Must(core.New([]core.Rule{rule}, core.WithStore(redisstore.New(client, opts...)), core.WithTimeout(storeTimeout)))
	return shared("spillgate", func(key string) bool {
		d, err := limiter.Take(background, core.Claim{Rule: "default", Key: key})
		return d.Allowed && d.Degraded == nil && err == nil
	})
}
