package echolimit

import (
	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// A problemError is the error of a request that is not admitted, with all parts in one allocation. An application's
// HTTPErrorHandler finds an ordinary HTTPError, whose Message is a string. The default HTTPErrorHandler prefers the
// HTTPError in the field Internal of that one, which renders the page.
type problemError struct {
	http, rendered echo.HTTPError
	page           respond.Page
}

// denial returns the error for a request that d denies.
func denial(c echo.Context, d *core.Decision) error {
	e := new(problemError)
	e.page.Deny(c.Response().Header(), d)
	return e.wrapping(nil)
}

// failure returns the error for a request that could not be decided because of err.
func failure(c echo.Context, err error) error {
	e := new(problemError)
	e.page.Fail(c.Response().Header(), err)
	return e.wrapping(err)
}

func (e *problemError) wrapping(cause error) error {
	e.rendered = echo.HTTPError{Code: e.page.Status, Message: &e.page, Internal: cause}
	e.http = echo.HTTPError{Code: e.page.Status, Message: e.page.Summary(), Internal: &e.rendered}
	return &e.http
}
