package apps

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	echolimit "github.com/spillgate/spillgate/middleware/echov5"
)

func echov5Guards(guards []Guard) (ms []echo.MiddlewareFunc) {
	for _, g := range guards {
		opts := []echolimit.Option{echolimit.WithHeaders(g.Headers)}
		if g.Deny != nil {
			opts = append(opts, echolimit.WithDenyHandler(func(c *echo.Context, d core.Decision) error {
				g.Deny(c.Response(), c.Request(), d)
				return nil
			}))
		}
		if g.Fail != nil {
			opts = append(opts, echolimit.WithErrorHandler(func(c *echo.Context, err error) error {
				g.Fail(c.Response(), c.Request(), err)
				return nil
			}))
		}
		ms = append(ms, echolimit.New(g.Limiter, opts...))
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
