package echolimit

import (
	"net/http"

	"github.com/labstack/echo/v5"
)

// find looks up a request that the router has not seen yet, or does not know. The router notes in the request what it
// finds, hence the copy.
func find(e *echo.Echo, r *http.Request) string {
	c := e.NewContext(r.WithContext(r.Context()), nil)
	e.Router().Route(c)
	return c.Path()
}
