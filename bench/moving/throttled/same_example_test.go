package throttled

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// same limits each address to 20 requests per minute, 6 at once, and responds as throttled does.
func same(next http.Handler) (http.Handler, error) {
	seconds := func(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
	fields := func(h http.Header, d core.Decision) {
		t, ok := d.Tightest()
		if !ok {
			return // no rule applied
		}
		h.Set("X-RateLimit-Limit", strconv.Itoa(t.Limit.Capacity()))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(t.Remaining))
		h.Set("X-RateLimit-Reset", seconds(t.ResetAfter))
		if !t.Allowed && t.RetryAfter != core.Never {
			h.Set("Retry-After", seconds(t.RetryAfter))
		}
	}
	deny := func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		w.Header().Del("Cache-Control")
		http.Error(w, "limit exceeded", http.StatusTooManyRequests)
	}
	fail := func(w http.ResponseWriter, _ *http.Request, _ error) {
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
	limiter, err := core.New([]core.Rule{core.PerMinute(20).WithBurst(6).By(keyfunc.RemoteIP)})
	if err != nil {
		return nil, err
	}
	return stdlib.New(limiter, stdlib.WithHeaders(fields), stdlib.WithDenyHandler(deny), stdlib.WithErrorHandler(fail))(next), nil
}
