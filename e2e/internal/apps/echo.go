package apps

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
)

func echoGuards(guards []Guard) (ms []echo.MiddlewareFunc) {
	for _, g := range guards {
		opts := []echolimit.Option{echolimit.WithHeaders(g.Headers)}
		if g.Deny != nil {
			opts = append(opts, echolimit.WithDenyHandler(func(c echo.Context, d core.Decision) error {
				g.Deny(c.Response(), c.Request(), d)
				return nil
			}))
		}
		if g.Fail != nil {
			opts = append(opts, echolimit.WithErrorHandler(func(c echo.Context, err error) error {
				g.Fail(c.Response(), c.Request(), err)
				return nil
			}))
		}
		ms = append(ms, echolimit.New(g.Limiter, opts...))
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
