package echolimit

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

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
