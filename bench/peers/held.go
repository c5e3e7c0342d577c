package peers

import (
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// HeldHTTP is the stdlib adapter with a rule that holds the cost of a request until its response has ended.
func HeldHTTP(l Limit) Middleware {
	rule := l.core().By(keyfunc.RemoteIP)
	rule.CostAfter = core.Failures
	return Middleware{"spillgate, held until the response has ended", stdlib.New(core.Must(core.New([]core.Rule{rule})))}
}

// AtOnceHTTP is the stdlib adapter with a limit of requests in flight.
func AtOnceHTTP(Limit) Middleware {
	return Middleware{"spillgate, requests at once", stdlib.New(core.Must(core.New([]core.Rule{core.AtOnce(1000).By(keyfunc.RemoteIP)})))}
}

// HeldRedis is Limiter.Take of a claim that is held in Redis, and then Limiter.Settle, as a request that ends does.
func HeldRedis(l Limit, client redis.UniversalClient) *Store {
	rule := l.core().By(keyfunc.RemoteIP)
	limiter := core.Must(core.New([]core.Rule{rule}, core.WithStore(redisstore.New(client)), core.WithTimeout(storeTimeout)))
	return shared("spillgate, held and settled", func(key string) bool {
		d, err := limiter.Take(background, core.Claim{Rule: "default", Key: key, Hold: true})
		if err != nil || d.Degraded != nil || !d.Allowed {
			return false
		}
		return limiter.Settle(background, d, "default", 1) == nil
	})
}
