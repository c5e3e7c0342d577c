package peers

import (
	"net/http"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// RedisRate is github.com/go-redis/redis_rate: a token bucket.
func RedisRate(l Limit, client redis.UniversalClient) *Store {
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: l.Rate, Burst: l.Rate, Period: l.Period}
	return shared("redis_rate", func(key string) bool {
		r, err := limiter.Allow(background, key, limit)
		return err == nil && r.Allowed > 0
	})
}

// UluleRedis is github.com/ulule/limiter: a fixed window that begins with the first request.
func UluleRedis(l Limit, client redis.UniversalClient) *Store {
	s := must(ululeredis.NewStore(client))
	r := ulule.Rate{Period: l.Period, Limit: int64(l.Rate)}
	return shared("ulule", func(key string) bool {
		c, err := s.Get(background, key, r)
		return err == nil && !c.Reached
	})
}

// HTTPRateRedis is github.com/go-chi/httprate-redis, called with a request because it has no other way in.
func HTTPRateRedis(l Limit, client redis.UniversalClient) *Store {
	limiter := httprate.NewRateLimiter(l.Rate, l.Period, httprateredis.WithRedisLimitCounter(&httprateredis.Config{
		Client: client, WindowLength: l.Period, FallbackDisabled: true,
	}))
	worker := func() Take {
		r := must(http.NewRequest(http.MethodGet, "/", nil))
		w := headerOnly(make(http.Header))
		return func(key string) bool { return !limiter.OnLimit(w, r, key) }
	}
	return &Store{Name: "httprate-redis", Worker: worker}
}

// headerOnly is a ResponseWriter that keeps the header.
type headerOnly http.Header

func (h headerOnly) Header() http.Header         { return http.Header(h) }
func (h headerOnly) Write(p []byte) (int, error) { return len(p), nil }
func (h headerOnly) WriteHeader(int)             {}

// Incr is a baseline: one INCR for each decision.
func Incr(_ Limit, client redis.UniversalClient) *Store {
	return shared("INCR", func(key string) bool { return client.Incr(background, "baseline:"+key).Err() == nil })
}
