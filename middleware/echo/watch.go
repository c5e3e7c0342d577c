package echolimit

import (
	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
)

// watch serves a request whose outcome is wanted, and settles it. It has the HTTPErrorHandler answer an error at once, as
// echo's RequestLogger does with HandleError, because the status is not known before. Then it returns the error: the
// default HTTPErrorHandler ignores it, since the response is committed.
func watch(c echo.Context, g *core.Guard, next echo.HandlerFunc) (err error) {
	a := outcome.Answer{}
	defer func() {
		r := c.Response()
		a.Bytes, a.Written = r.Size, r.Committed
		if a.Written {
			a.Status = r.Status
		} else {
			a.Err = err
		}
		g.Settle(outcome.Of(g.Request(), a))
	}()
	if err = next(c); err != nil && !c.Response().Committed {
		c.Error(err)
	}
	a.Returned = true
	return err
}
