package httprate

import (
	"net/http"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// same limits each address to 100 requests per minute, and responds as httprate does.
func same(next http.Handler) http.Handler {
	start := time.Now() // httprate's windows begin when the limiter is made
	fields := func(h http.Header, d core.Decision) {
		t, ok := d.Tightest()
		if !ok {
			return // no rule applied
		}
		ended := d.At.Sub(start) / t.Limit.Period
		h.Set("X-RateLimit-Limit", strconv.Itoa(t.Limit.Rate))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(t.Remaining))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(start.Add((ended+1)*t.Limit.Period).Unix(), 10))
		if !d.Allowed {
			h.Set("Retry-After", strconv.Itoa(int(t.Limit.Period.Seconds())))
		}
	}
	deny := func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		w.Header().Del("Cache-Control")
		http.Error(w, "Too Many Requests", http.StatusTooManyRequests)
	}
	fail := func(w http.ResponseWriter, _ *http.Request, _ error) {
		http.Error(w, "no address", http.StatusPreconditionRequired)
	}
	limit := core.PerMinute(100).Using(core.SlidingWindow)
	limiter := core.Must(core.New([]core.Rule{limit.By(keyfunc.RemoteIP)}))
	return stdlib.New(limiter, stdlib.WithHeaders(fields), stdlib.WithDenyHandler(deny), stdlib.WithErrorHandler(fail))(next)
}
