package echolimit

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/middleware/internal/route"
)

// routeOf returns the function that tells the route pattern of c, which echo uses again after the request.
func routeOf(c echo.Context) func(*http.Request) string {
	path, e := c.Path(), c.Echo()
	return func(r *http.Request) string {
		if path == "" {
			return route.Braces(find(e, r))
		}
		return route.Braces(path)
	}
}

// find looks up a request that the router has not seen yet, or does not know.
func find(e *echo.Echo, r *http.Request) string {
	router := e.Router()
	if host, ok := e.Routers()[r.Host]; ok {
		router = host
	}
	c := e.NewContext(r, nil)
	router.Find(r.Method, echo.GetPath(r), c)
	return c.Path()
}
