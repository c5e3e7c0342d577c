package echo

import (
	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
)

// after limits each address to 10 requests per minute.
func after(e *echo.Echo) {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(10).By(keyfunc.RemoteIP)}))
	e.Use(echolimit.New(limiter))
}
