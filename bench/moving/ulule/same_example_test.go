package ulule

import (
	"net/http"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// same limits each address to 1,000 requests per hour, in all processes together, and responds as ulule/limiter does.
func same(client *redis.Client, next http.Handler) (http.Handler, error) {
	fields := func(h http.Header, d core.Decision) {
		if t, ok := d.Tightest(); ok {
			h.Set("X-RateLimit-Limit", strconv.Itoa(t.Limit.Rate))
			h.Set("X-RateLimit-Remaining", strconv.Itoa(t.Remaining))
			h.Set("X-RateLimit-Reset", strconv.FormatInt(d.At.Add(t.ResetAfter).Unix(), 10))
		}
	}
	deny := func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		w.Header().Del("Cache-Control")
		http.Error(w, "Limit exceeded", http.StatusTooManyRequests)
	}
	rule := core.PerHour(1000).Using(core.FixedWindow).By(keyfunc.RemoteIP)
	rule.Name = "api" // all stores over one client and prefix share rules by their names
	store := redisstore.New(client, redisstore.WithPrefix("shop"))
	limiter, err := core.New([]core.Rule{rule}, core.WithStore(store))
	if err != nil {
		return nil, err
	}
	return stdlib.New(limiter, stdlib.WithHeaders(fields), stdlib.WithDenyHandler(deny))(next), nil
}
