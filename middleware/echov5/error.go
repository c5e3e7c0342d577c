package echolimit

import (
	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// A problemError is the error of a request that must not pass. The default HTTPErrorHandler finds it first, by its method
// StatusCode, and has it marshal itself; one of the application finds the *echo.HTTPError in it.
type problemError struct {
	respond.Page
	http error
}

// asError returns p as an error for the HTTPErrorHandler.
func asError(c *echo.Context, p respond.Problem, cause error) error {
	h := c.Response().Header()
	p.Announce(h)
	err := error(echo.NewHTTPError(p.Status, p.Title))
	if cause != nil {
		err = echo.NewHTTPError(p.Status, p.Title).Wrap(cause)
	}
	return &problemError{Page: respond.Page{Problem: p, Header: h}, http: err}
}

// Error implements error.
func (e *problemError) Error() string { return e.http.Error() }

// StatusCode implements echo.HTTPStatusCoder.
func (e *problemError) StatusCode() int { return e.Status }

// Unwrap returns an *echo.HTTPError.
func (e *problemError) Unwrap() error { return e.http }
