package echolimit

import (
	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
)

// watch serves a request whose outcome is wanted, and settles it. It has the HTTPErrorHandler answer an error at once, as
// echo's RequestLogger does with HandleError, because the status is not known before. Then it returns the error: the
// default HTTPErrorHandler ignores it, since the response is committed.
func watch(c *echo.Context, g *core.Guard, next echo.HandlerFunc) (err error) {
	a := outcome.Answer{}
	defer func() {
		switch r, unwrap := echo.UnwrapResponse(c.Response()); {
		case unwrap != nil:
			a.Err = unwrap // a middleware has replaced the response and hides its status
		case r.Committed:
			a.Bytes, a.Written, a.Status = r.Size, true, r.Status
		default:
			a.Err = err
		}
		g.Settle(outcome.Of(g.Request(), a))
	}()
	if err = next(c); err != nil && !committed(c) {
		c.Echo().HTTPErrorHandler(c, err)
	}
	a.Returned = true
	return err
}

func committed(c *echo.Context) bool {
	r, _ := echo.UnwrapResponse(c.Response())
	return r != nil && r.Committed
}
