package peers

import (
	"fmt"
	"net/http"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/redis/go-redis/v9"
	ululelimiter "github.com/ulule/limiter/v3"
	ululestd "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// A RedisMiddleware limits requests by rules whose state is in Redis. If Redis fails, the request fails.
type RedisMiddleware struct {
	Name string
	Wrap func(rules []core.Rule, client redis.UniversalClient) func(http.Handler) http.Handler
}

// OverRedis lists the libraries that have a middleware for net/http and a store in Redis. The middleware of other
// libraries counts each limit of each rule by their own algorithm, with a middleware for each.
var OverRedis = []RedisMiddleware{
	{"spillgate", func(rules []core.Rule, client redis.UniversalClient) func(http.Handler) http.Handler {
		closed := append([]core.Rule(nil), rules...)
		for i := range closed {
			closed[i].OnFailure = core.FailClosed
		}
		return stdlib.New(core.Must(core.New(closed, core.WithStore(redisstore.New(client)), core.WithTimeout(storeTimeout))))
	}},
	{"ulule", eachLimit(func(name string, key core.KeyFunc, l core.Limit, client redis.UniversalClient) func(http.Handler) http.Handler {
		store := must(ululeredis.NewStoreWithOptions(client, ululelimiter.StoreOptions{Prefix: name, MaxRetry: ululelimiter.DefaultMaxRetry}))
		limiter := ululelimiter.New(store, ululelimiter.Rate{Period: l.Period, Limit: int64(l.Rate)})
		return ululestd.NewMiddleware(limiter, ululestd.WithKeyGetter(func(r *http.Request) string {
			k, _ := key(r)
			return k
		})).Handler
	})},
	{"httprate-redis", eachLimit(func(name string, key core.KeyFunc, l core.Limit, client redis.UniversalClient) func(http.Handler) http.Handler {
		return httprate.LimitBy(l.Rate, l.Period, httprate.KeyFunc(key), httprateredis.WithRedisLimitCounter(&httprateredis.Config{
			Client: client, WindowLength: l.Period, PrefixKey: name, FallbackDisabled: true,
		}))
	})},
}

// eachLimit returns a Wrap that nests the middleware of each limit.
func eachLimit(
	middleware func(name string, key core.KeyFunc, l core.Limit, client redis.UniversalClient) func(http.Handler) http.Handler,
) func([]core.Rule, redis.UniversalClient) func(http.Handler) http.Handler {
	return func(rules []core.Rule, client redis.UniversalClient) func(http.Handler) http.Handler {
		return func(h http.Handler) http.Handler {
			for _, r := range rules {
				for i, l := range r.Limits {
					h = middleware(fmt.Sprintf("%s:%d", r.Name, i), r.Key, l, client)(h)
				}
			}
			return h
		}
	}
}
