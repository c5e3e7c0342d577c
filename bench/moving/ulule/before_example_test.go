package ulule

import (
	"net/http"

	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	store "github.com/ulule/limiter/v3/drivers/store/redis"
)

// before limits each address to 1,000 requests per hour, in all processes together.
func before(client *redis.Client, next http.Handler) (http.Handler, error) {
	rate, err := limiter.NewRateFromFormatted("1000-H")
	if err != nil {
		return nil, err
	}
	shared, err := store.NewStore(client)
	if err != nil {
		return nil, err
	}
	return stdlib.NewMiddleware(limiter.New(shared, rate)).Handler(next), nil
}
