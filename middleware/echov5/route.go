package echolimit

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/middleware/internal/route"
)

// routeOf returns the function that tells the route pattern of c, which echo uses again after the request.
func routeOf(c *echo.Context) func(*http.Request) string {
	path, e := c.Path(), c.Echo()
	return func(r *http.Request) string {
		if path == "" {
			return route.Braces(find(e, r))
		}
		return route.Braces(path)
	}
}

// find looks up a request that the router has not seen yet, or does not know. The router notes in the request what it
// finds, hence the copy.
func find(e *echo.Echo, r *http.Request) string {
	c := e.NewContext(r.WithContext(r.Context()), nil)
	e.Router().Route(c)
	return c.Path()
}
