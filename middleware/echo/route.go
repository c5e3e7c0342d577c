package echolimit

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/middleware/internal/route"
)

// find looks up a request that the router has not seen yet, or has no route for.
func find(e *echo.Echo, r *http.Request) (string, error) {
	router := e.Router()
	if host, ok := e.Routers()[r.Host]; ok {
		router = host
	}
	return route.Find(r.URL, func(u *url.URL) string {
		c := e.NewContext(r, nil)
		router.Find(r.Method, cmp.Or(u.RawPath, u.Path), c)
		return c.Path()
	})
}
