package echolimit

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/middleware/internal/deadline"
	"github.com/spillgate/spillgate/middleware/internal/route"
)

// ContextOf returns the echo.Context of a request. It is for key funcs, Match, Cost and Tier, which get only the
// request. It reports false for requests that did not pass this middleware. The echo.Context is valid until the request
// has ended. The handler finds what a callback has changed in its request, such as the form that it has parsed.
func ContextOf(r *http.Request) (echo.Context, bool) {
	c, ok := r.Context().Value(contextKey{}).(echo.Context)
	return c, ok
}

type contextKey struct{}

// requestContext is the context of a request. It adds the echo.Context and finds the route. The path is a copy, because
// echo reuses the echo.Context after the request.
type requestContext struct {
	context.Context
	echo   echo.Context
	server *echo.Echo
	path   string
}

func newRequestContext(c echo.Context) *requestContext {
	return &requestContext{Context: c.Request().Context(), echo: c, server: c.Echo(), path: c.Path()}
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	if key == (contextKey{}) {
		return c.echo
	}
	return c.Context.Value(key)
}

// SetRequest sets the request of the echo.Context: see core.Router.
func (c *requestContext) SetRequest(r *http.Request) { c.echo.SetRequest(r) }

// RoutePattern implements core.Router.
func (c *requestContext) RoutePattern(r *http.Request) (string, error) {
	if c.path != "" {
		return route.Braces(c.path), nil
	}
	pattern, err := find(c.server, r)
	return route.Braces(pattern), err
}

// RouteTarget says which path echo has routed, whatever the path of the request is now: see core.Router.
func (c *requestContext) RouteTarget(*http.Request) (method, path string) {
	return "", route.Fill(route.Braces(c.path), func(name string) string {
		return cmp.Or(c.echo.Param(name), c.echo.Param("*"))
	})
}

// ExtendDeadlines implements core.DeadlineExtender.
func (c *requestContext) ExtendDeadlines(wait time.Duration) bool {
	w := c.echo.Response().Writer
	for r, ok := w.(*echo.Response); ok; r, ok = w.(*echo.Response) { // of echo.WrapMiddleware; Unwrap needs a later echo
		w = r.Writer
	}
	return deadline.Extend(w, c.echo.Request(), wait)
}
