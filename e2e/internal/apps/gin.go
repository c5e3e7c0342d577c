package apps

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
)

func init() { gin.SetMode(gin.ReleaseMode) }

func ginGuards(guards []Guard) (hs []gin.HandlerFunc) {
	for _, g := range guards {
		opts := []ginlimit.Option{ginlimit.WithHeaders(g.Headers)}
		if g.Deny != nil {
			opts = append(opts, ginlimit.WithDenyHandler(func(c *gin.Context, d core.Decision) { g.Deny(c.Writer, c.Request, d) }))
		}
		if g.Fail != nil {
			opts = append(opts, ginlimit.WithErrorHandler(func(c *gin.Context, err error) { g.Fail(c.Writer, c.Request, err) }))
		}
		hs = append(hs, ginlimit.New(g.Limiter, opts...))
	}
	return hs
}

func ginUse(app App) http.Handler {
	r := gin.New()
	r.Use(ginGuards(app.Guards)...)
	for _, route := range app.Routes {
		handlers := append(ginGuards(route.Guards), func(c *gin.Context) { route.Handler(c.Writer, c.Request) })
		r.Match(methods, colons(route.Pattern), handlers...)
	}
	return r
}
