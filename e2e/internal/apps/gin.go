package apps

import (
	"net/http"

	"github.com/gin-gonic/gin"

	ginlimit "github.com/spillgate/spillgate/middleware/gin"
)

func init() { gin.SetMode(gin.ReleaseMode) }

func ginGuards(guards []Guard) (hs []gin.HandlerFunc) {
	for _, g := range guards {
		hs = append(hs, ginlimit.New(g.Limiter, ginlimit.WithHeaders(g.Headers)))
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
