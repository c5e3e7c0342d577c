package apps

import (
	"net/http"

	"github.com/labstack/echo/v5"

	echolimit "github.com/spillgate/spillgate/middleware/echov5"
)

func echov5Guards(guards []Guard) (ms []echo.MiddlewareFunc) {
	for _, g := range guards {
		ms = append(ms, echolimit.New(g.Limiter, echolimit.WithHeaders(g.Headers)))
	}
	return ms
}

func echov5Use(app App) http.Handler {
	e := echo.New()
	e.Use(echov5Guards(app.Guards)...)
	for _, route := range app.Routes {
		h := func(c *echo.Context) error {
			route.Handler(c.Response(), c.Request())
			return nil
		}
		for _, method := range methods {
			e.Add(method, colons(route.Pattern), h, echov5Guards(route.Guards)...)
		}
	}
	return e
}
