package tollbooth

import (
	"net/http"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"
)

// before limits each address to 5 requests per second of each path, 10 at once.
func before(next http.Handler) http.Handler {
	limit := tollbooth.NewLimiter(5, nil)
	limit.SetBurst(10)
	limit.SetIPLookup(limiter.IPLookup{Name: "RemoteAddr"})
	return tollbooth.HTTPMiddleware(limit)(next)
}
