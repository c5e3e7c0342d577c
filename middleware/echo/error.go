package echolimit

import (
	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// asError returns p as an error for the HTTPErrorHandler. One of the application finds an ordinary HTTPError, whose
// Message is a string. The default one prefers an HTTPError that is the Internal of another: that renders p.
func asError(c echo.Context, p respond.Problem, cause error) error {
	h := c.Response().Header()
	p.Announce(h)
	rendered := &echo.HTTPError{Code: p.Status, Message: p.Fields(h), Internal: cause}
	return &echo.HTTPError{Code: p.Status, Message: p.Title, Internal: rendered}
}
