package apps

import (
	"net/http"

	"github.com/labstack/echo/v4"

	echolimit "github.com/spillgate/spillgate/middleware/echo"
)

func echoGuards(guards []Guard) (ms []echo.MiddlewareFunc) {
	for _, g := range guards {
		ms = append(ms, echolimit.New(g.Limiter, echolimit.WithHeaders(g.Headers)))
	}
	return ms
}

func echoUse(app App) http.Handler {
	e := echo.New()
	e.Use(echoGuards(app.Guards)...)
	for _, route := range app.Routes {
		h := func(c echo.Context) error {
			route.Handler(c.Response(), c.Request())
			return nil
		}
		for _, method := range methods {
			e.Add(method, colons(route.Pattern), h, echoGuards(route.Guards)...)
		}
	}
	return e
}
