package echov5

import (
	"math"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	echolimit "github.com/spillgate/spillgate/middleware/echov5"
)

// same limits each address to 10 requests per minute, and responds as echo v5's own limiter does.
func same(e *echo.Echo) {
	fields := func(h http.Header, d core.Decision) {
		if t, ok := d.Tightest(); ok {
			h.Set("X-RateLimit-Limit", strconv.Itoa(t.Limit.Capacity()))
			h.Set("X-RateLimit-Remaining", strconv.Itoa(t.Remaining))
			if !d.Allowed {
				h.Set("Retry-After", strconv.Itoa(int(math.Ceil(t.RetryAfter.Seconds()))))
			}
		}
	}
	deny := func(c *echo.Context, _ core.Decision) error {
		c.Response().Header().Del("Cache-Control")
		return echo.NewHTTPError(http.StatusTooManyRequests, "rate limit exceeded")
	}
	fail := func(*echo.Context, error) error {
		return echo.NewHTTPError(http.StatusForbidden, "error while extracting identifier")
	}
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(10).By(keyfunc.RemoteIP)}))
	e.Use(echolimit.New(limiter, echolimit.WithHeaders(fields), echolimit.WithDenyHandler(deny), echolimit.WithErrorHandler(fail)))
}
