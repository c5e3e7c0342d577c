package echolimit

import (
	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// An Option changes how the middleware responds. A nil argument means the default.
type Option func(*options)

type options struct {
	headers headers.Writer
	deny    func(*echo.Context, core.Decision) error
	fail    func(*echo.Context, error) error
}

// WithHeaders chooses the response headers that describe the decision. The default is headers.GitHub.
func WithHeaders(w headers.Writer) Option {
	return func(o *options) { o.headers = w }
}

// WithDenyHandler uses deny to respond to denied requests. The middleware returns its error. The rate limit headers and
// Cache-Control: no-store are already set. The headers show d, and the context of c.Request() carries it too. To log
// the denial or add a header and then send the default response, return WriteDenial.
func WithDenyHandler(deny func(c *echo.Context, d core.Decision) error) Option {
	if deny == nil {
		return func(o *options) { o.deny = nil }
	}
	return func(o *options) {
		o.deny = func(c *echo.Context, d core.Decision) error {
			respond.NoStore(c.Response().Header())
			return deny(c, d)
		}
	}
}

// WithErrorHandler uses fail to respond to requests that could not be decided: see core.Limiter.Check for the errors.
// The middleware returns its error. Do not send the errors' texts to clients. To log the error and then send the
// default response, return WriteError.
func WithErrorHandler(fail func(c *echo.Context, err error) error) Option {
	return func(o *options) { o.fail = fail }
}
