package echo

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/keyfunc"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
)

// same limits each address to 10 requests per minute, and responds as echo's own limiter does.
func same(e *echo.Echo) {
	deny := func(c echo.Context, _ core.Decision) error {
		c.Response().Header().Del("Cache-Control")
		return echo.NewHTTPError(http.StatusTooManyRequests, "rate limit exceeded")
	}
	fail := func(echo.Context, error) error {
		return echo.NewHTTPError(http.StatusForbidden, "error while extracting identifier")
	}
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(10).By(keyfunc.RemoteIP)}))
	e.Use(echolimit.New(limiter, echolimit.WithHeaders(headers.None), echolimit.WithDenyHandler(deny), echolimit.WithErrorHandler(fail)))
}
