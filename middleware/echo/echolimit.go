package echolimit

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/option"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// New returns a middleware that asks l about each request before the next handler runs. It panics if l or an option is nil.
func New(l *core.Limiter, opts ...Option) echo.MiddlewareFunc {
	if l == nil {
		panic("spillgate: the limiter is nil; want one that core.New returned")
	}
	var o options
	option.Apply(&o, opts)
	if o.deny == nil {
		o.deny = WriteDenial
	}
	if o.fail == nil {
		o.fail = WriteError
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return o.limit(c, l, next) }
	}
}

// limit leaves g.Request in c if the request is denied, so that the HTTPErrorHandler, which runs afterwards, finds the
// decision.
func (o *options) limit(c echo.Context, l *core.Limiter, next echo.HandlerFunc) error {
	ctx := newRequestContext(c)
	outer := c.Request()
	g, err := l.Guard(ctx, outer, ctx)
	defer g.End()
	if err != nil {
		return o.fail(c, err)
	}
	respond.Headers(c.Response().Header(), &g, o.headers)
	if !g.Admitted() {
		return o.deny(c, g.Decision())
	}
	defer func() {
		if c.Request() == g.Request() { // no handler has replaced it
			c.SetRequest(outer)
		}
	}()
	if c.Path() == "" {
		next = inPlace(outer, g.Request(), next)
	}
	if g.Watches() {
		return watched(c, &g, next)
	}
	return next(c)
}

// inPlace runs next with outer, which has the contents of own meanwhile. It is for a limiter in Pre: behind it, echo routes
// outer, the request that it was given, whatever c.Request is, so middleware that rewrites the request must find outer.
// Afterwards, own has what the handlers have changed.
func inPlace(outer, own *http.Request, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		before := *outer
		*outer = *own
		c.SetRequest(outer)
		defer func() {
			*own, *outer = *outer, before
			if c.Request() == outer {
				c.SetRequest(own)
			}
		}()
		return next(c)
	}
}

// WriteError returns the default response to a request that could not be decided, as an error for the HTTPErrorHandler. An
// error handler that only logs must return it: a nil error leaves an empty 200. To a call of gRPC or Connect, it responds at
// once, in the protocol of the call, and returns nil.
func WriteError(c echo.Context, err error) error {
	if respond.Failure(err).WriteCall(c.Response(), c.Request()) {
		return nil
	}
	return failure(c, err)
}

// WriteDenial returns the default response to a request that d denies, as an error for the HTTPErrorHandler: status
// 429, or 413 if the request costs more than is ever admitted at once, with a problem in JSON that names the violated
// policies. A deny handler that logs the denial or adds a header returns it: a nil error leaves an empty 200. It does
// not write the headers that describe d: the middleware has set them. To a call of gRPC or Connect, it responds at once, in the
// protocol of the call, and returns nil.
func WriteDenial(c echo.Context, d core.Decision) error {
	if respond.DenyCall(c.Response(), c.Request(), &d) {
		return nil
	}
	return denial(c, &d)
}
