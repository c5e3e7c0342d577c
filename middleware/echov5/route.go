package echolimit

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/middleware/internal/route"
)

// find looks up a request that the router has not seen yet, or has no route for. It looks up copies, because the router
// stores what it finds in the request.
func find(e *echo.Echo, r *http.Request) (string, error) {
	return route.Find(r.URL, func(u *url.URL) string {
		r := r.WithContext(r.Context())
		r.URL = u
		c := e.NewContext(r, nil)
		e.Router().Route(c)
		return c.Path()
	})
}
