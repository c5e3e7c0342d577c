package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// answers sends GitHub's and the IETF draft's headers, and its own text to denied requests.
func answers(limiter *core.Limiter) func(http.Handler) http.Handler {
	return stdlib.New(limiter,
		stdlib.WithHeaders(headers.Join(headers.GitHub, headers.IETF)),
		stdlib.WithDenyHandler(func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
			http.Error(w, "Too many requests. Retry-After says when to come back.", http.StatusTooManyRequests)
		}),
	)
}
