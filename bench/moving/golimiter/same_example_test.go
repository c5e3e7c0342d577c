package golimiter

import (
	"net/http"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// same limits each address to 15 requests per minute, and responds as go-limiter does.
func same(next http.Handler) (http.Handler, error) {
	fields := func(h http.Header, d core.Decision) {
		t, ok := d.Tightest()
		if !ok {
			return // no rule applied
		}
		end := d.At.Add(t.ResetAfter).UTC().Format(time.RFC1123)
		h.Set("X-RateLimit-Limit", strconv.Itoa(t.Limit.Rate))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(t.Remaining))
		h.Set("X-RateLimit-Reset", end)
		if !d.Allowed {
			h.Set("Retry-After", end)
		}
	}
	deny := func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		w.Header().Del("Cache-Control")
		http.Error(w, "Too Many Requests", http.StatusTooManyRequests)
	}
	fail := func(w http.ResponseWriter, _ *http.Request, _ error) {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	}
	limiter, err := core.New([]core.Rule{core.PerMinute(15).Using(core.FixedWindow).By(keyfunc.RemoteIP)})
	if err != nil {
		return nil, err
	}
	return stdlib.New(limiter, stdlib.WithHeaders(fields), stdlib.WithDenyHandler(deny), stdlib.WithErrorHandler(fail))(next), nil
}
