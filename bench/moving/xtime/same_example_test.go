package xtime

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// same limits each address to 2 requests per second, 4 at once, and responds as before.
func same(next http.Handler) http.Handler {
	deny := func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		w.Header().Del("Cache-Control")
		http.Error(w, "Too Many Requests", http.StatusTooManyRequests)
	}
	fail := func(w http.ResponseWriter, _ *http.Request, _ error) {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	}
	limiter := core.Must(core.New([]core.Rule{core.PerSecond(2).WithBurst(4).By(keyfunc.RemoteIP)}))
	return stdlib.New(limiter, stdlib.WithHeaders(headers.None), stdlib.WithDenyHandler(deny), stdlib.WithErrorHandler(fail))(next)
}
