package ulule

import (
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// after limits each address to 1,000 requests per hour, in all processes together.
func after(client *redis.Client, next http.Handler) (http.Handler, error) {
	rule := core.PerHour(1000).Using(core.FixedWindow).By(keyfunc.RemoteIP)
	rule.Name = "api" // all stores over one client and prefix share rules by their names
	store := redisstore.New(client, redisstore.WithPrefix("shop"))
	limiter, err := core.New([]core.Rule{rule}, core.WithStore(store))
	if err != nil {
		return nil, err
	}
	return stdlib.New(limiter)(next), nil
}
