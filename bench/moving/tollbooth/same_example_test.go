package tollbooth

import (
	"io"
	"net/http"
	"strconv"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// same limits each address to 5 requests per second of each route, 10 at once, and responds as tollbooth does.
func same(next http.Handler) http.Handler {
	fields := func(h http.Header, d core.Decision) {
		if t, ok := d.Tightest(); ok {
			h.Set("RateLimit-Limit", "5")
			h.Set("RateLimit-Remaining", strconv.Itoa(t.Remaining))
			h.Set("RateLimit-Reset", "1")
		}
	}
	deny := func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		w.Header().Del("Cache-Control")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "You have reached maximum request limit.")
	}
	key := keyfunc.Join(keyfunc.RemoteIP, keyfunc.Pattern)
	limiter := core.Must(core.New([]core.Rule{core.PerSecond(5).WithBurst(10).By(key)}))
	limited := stdlib.New(limiter, stdlib.WithHeaders(fields), stdlib.WithDenyHandler(deny))(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Rate-Limit-Limit", "5.00")
		w.Header().Set("X-Rate-Limit-Duration", "1")
		w.Header().Set("X-Rate-Limit-Request-Remote-Addr", r.RemoteAddr)
		if forwarded := r.Header.Get("X-Forwarded-For"); forwarded != "" {
			w.Header().Set("X-Rate-Limit-Request-Forwarded-For", forwarded)
		}
		limited.ServeHTTP(w, r)
	})
}
