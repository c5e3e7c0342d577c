package echolimit

import (
	"log/slog"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// A problemError is the error of a request that is not admitted, with all parts in one allocation. The default
// HTTPErrorHandler recognizes it by its method StatusCode and marshals it. An application's HTTPErrorHandler finds the
// *echo.HTTPError in it.
type problemError struct {
	http echo.HTTPError
	page respond.Page
	err  error // &http, or an *echo.HTTPError that wraps the cause
}

// denial returns the error for a request that d denies.
func denial(c *echo.Context, d *core.Decision) error {
	e := new(problemError)
	e.page.Deny(c.Response().Header(), d)
	e.http = echo.HTTPError{Code: e.page.Status, Message: e.page.Summary().(string)}
	e.err = &e.http
	return e
}

// failure returns the error for a request that could not be decided because of err.
func failure(c *echo.Context, err error) error {
	e := new(problemError)
	e.page.Fail(c.Response().Header(), err)
	e.err = echo.HTTPError{Code: e.page.Status, Message: e.page.Summary().(string)}.Wrap(err)
	return e
}

// Error implements error.
func (e *problemError) Error() string { return e.err.Error() }

// StatusCode implements echo.HTTPStatusCoder.
func (e *problemError) StatusCode() int { return e.page.Status }

// MarshalJSON implements json.Marshaler.
func (e *problemError) MarshalJSON() ([]byte, error) { return e.page.JSON() }

// LogValue implements slog.LogValuer: slog's JSON, which echo's own logger writes, would show the page instead of the cause.
func (e *problemError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// Unwrap returns an *echo.HTTPError.
func (e *problemError) Unwrap() error { return e.err }
