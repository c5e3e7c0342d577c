package routers

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
)

// perAPI is for a group of routes, and perExport for one route in it.
func perAPI(ip core.KeyFunc) core.Rule {
	return core.Rule{Name: "api", Key: ip, Limits: []core.Limit{core.PerMinute(100)}}
}

func perExport(ip core.KeyFunc) core.Rule {
	return core.Rule{Name: "export", Key: ip, Limits: []core.Limit{core.PerMinute(5)}}
}

func withChi(api, export *core.Limiter, list, create http.HandlerFunc) http.Handler {
	r := chi.NewRouter()
	r.Route("/api", func(r chi.Router) {
		r.Use(chilimit.New(api))
		r.Get("/items", list)
		r.With(chilimit.New(export)).Post("/export", create)
	})
	return r
}

func withGin(api, export *core.Limiter, list, create gin.HandlerFunc) http.Handler {
	r := gin.New()
	group := r.Group("/api", ginlimit.New(api))
	group.GET("/items", list)
	group.POST("/export", ginlimit.New(export), create)
	return r
}

func withEcho(api, export *core.Limiter, list, create echo.HandlerFunc) http.Handler {
	e := echo.New()
	group := e.Group("/api", echolimit.New(api))
	group.GET("/items", list)
	group.POST("/export", create, echolimit.New(export))
	return e
}
