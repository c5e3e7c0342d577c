package echolimit

import (
	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// New returns a middleware that charges each request to l before it passes it on. It panics if l is nil.
func New(l *core.Limiter, opts ...Option) echo.MiddlewareFunc {
	if l == nil {
		panic("spillgate: the limiter is nil")
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	o.setDefaults()
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return o.guard(c, l, next) }
	}
}

func (o *options) setDefaults() {
	if o.headers == nil {
		o.headers = headers.GitHub
	}
	if o.deny == nil {
		o.deny = func(c *echo.Context, d core.Decision) error { return asError(c, respond.Denial(d), nil) }
	}
	if o.fail == nil {
		o.fail = func(c *echo.Context, err error) error { return asError(c, respond.Failure(err), err) }
	}
}

func (o *options) guard(c *echo.Context, l *core.Limiter, next echo.HandlerFunc) error {
	r, d, admitted, err := l.Guard(c.Request(), routeOf(c))
	c.SetRequest(r)
	if err != nil {
		return o.fail(c, err)
	}
	o.headers(c.Response().Header(), d)
	if !admitted {
		respond.NoStore(c.Response().Header())
		return o.deny(c, d)
	}
	return next(c)
}
