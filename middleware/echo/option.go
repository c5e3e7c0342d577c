package echolimit

import (
	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// An Option changes how the middleware answers. A nil argument stands for the default.
type Option func(*options)

type options struct {
	headers headers.Writer
	deny    func(echo.Context, core.Decision) error
	fail    func(echo.Context, error) error
}

// WithHeaders chooses the response headers that describe the decision. The default is headers.GitHub.
func WithHeaders(w headers.Writer) Option {
	return func(o *options) { o.headers = w }
}

// WithDenyHandler has deny answer denied requests. The middleware returns its result. The headers are set,
// and so is Cache-Control: no-store; d is the decision that they show, which the context of c.Request() carries as well.
func WithDenyHandler(deny func(c echo.Context, d core.Decision) error) Option {
	if deny == nil {
		return func(o *options) { o.deny = nil }
	}
	return func(o *options) {
		o.deny = func(c echo.Context, d core.Decision) error {
			respond.NoStore(c.Response().Header())
			return deny(c, d)
		}
	}
}

// WithErrorHandler has fail answer requests that could not be decided: see core.Limiter.Check for the errors. Their texts
// are not meant for clients. To log an error and send the default answer, use WriteError. The middleware returns its
// result.
func WithErrorHandler(fail func(c echo.Context, err error) error) Option {
	return func(o *options) { o.fail = fail }
}
