package expressratelimit

import (
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// same responds as express-rate-limit does. fields is legacy, draft6 or draft7.
func same(limiter *core.Limiter, fields headers.Writer, next http.Handler) http.Handler {
	deny := func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
		w.Header().Del("Cache-Control")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "Too many requests, please try again later.")
	}
	return stdlib.New(limiter, stdlib.WithHeaders(fields), stdlib.WithDenyHandler(deny))(next)
}

// legacy is legacyHeaders: true.
func legacy(h http.Header, d core.Decision) {
	if t, ok := d.Tightest(); ok {
		h.Set("X-RateLimit-Limit", strconv.Itoa(t.Limit.Rate))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(t.Remaining))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(d.At.Add(t.ResetAfter+time.Second-1).Unix(), 10))
		retryAfter(h, t)
	}
}

// draft6 is standardHeaders: 'draft-6' or true.
func draft6(h http.Header, d core.Decision) {
	if t, ok := d.Tightest(); ok {
		h.Set("RateLimit-Policy", strconv.Itoa(t.Limit.Rate)+";w="+seconds(t.Limit.Period))
		h.Set("RateLimit-Limit", strconv.Itoa(t.Limit.Rate))
		h.Set("RateLimit-Remaining", strconv.Itoa(t.Remaining))
		h.Set("RateLimit-Reset", seconds(t.ResetAfter))
		retryAfter(h, t)
	}
}

// draft7 is standardHeaders: 'draft-7'.
func draft7(h http.Header, d core.Decision) {
	if t, ok := d.Tightest(); ok {
		h.Set("RateLimit-Policy", strconv.Itoa(t.Limit.Rate)+";w="+seconds(t.Limit.Period))
		h.Set("RateLimit", "limit="+strconv.Itoa(t.Limit.Rate)+", remaining="+strconv.Itoa(t.Remaining)+", reset="+seconds(t.ResetAfter))
		retryAfter(h, t)
	}
}

// retryAfter tells a denied client when the window ends.
func retryAfter(h http.Header, t core.Result) {
	if !t.Allowed {
		h.Set("Retry-After", seconds(t.ResetAfter))
	}
}

func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
