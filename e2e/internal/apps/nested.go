package apps

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	echov4 "github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"
)

// Prefix is where Nested puts an App.
const Prefix = "/api/{version}"

// Nested are the ways to put an App under Prefix, with its guards outside or inside the prefix.
var Nested = []Framework{
	{"chi Use over Mount", func(app App) http.Handler {
		r := chi.NewRouter()
		r.Use(chiGuards(app.Guards)...)
		r.Mount(Prefix, chiUse(App{Routes: app.Routes}))
		return r
	}},
	{"chi Mount of a router with Use", func(app App) http.Handler {
		r := chi.NewRouter()
		r.Mount(Prefix, chiUse(app))
		return r
	}},
	{"chi With before Mount", func(app App) http.Handler {
		r := chi.NewRouter()
		r.With(chiGuards(app.Guards)...).Mount(Prefix, chiUse(App{Routes: app.Routes}))
		return r
	}},
	{"chi Route with Use", func(app App) http.Handler {
		r := chi.NewRouter()
		r.Route(Prefix, func(r chi.Router) {
			r.Use(chiGuards(app.Guards)...)
			chiRoutes(r, app)
		})
		return r
	}},
	{"chi two Mounts deep", func(app App) http.Handler {
		r := chi.NewRouter()
		r.Route("/api", func(r chi.Router) { r.Mount("/{version}", chiUse(app)) })
		return r
	}},
	{"chi around", func(app App) http.Handler {
		r := chi.NewRouter()
		r.Mount(Prefix, chiUse(App{Routes: app.Routes}))
		return chiGuards(app.Guards)[0](r)
	}},
	{"gin Use over Group", func(app App) http.Handler {
		r := gin.New()
		r.Use(ginGuards(app.Guards)...)
		ginRoutes(r.Group(colons(Prefix)), app)
		return r
	}},
	{"gin Group", func(app App) http.Handler {
		r := gin.New()
		ginRoutes(r.Group(colons(Prefix), ginGuards(app.Guards)...), app)
		return r
	}},
	{"echo Use over Group", func(app App) http.Handler {
		e := echov4.New()
		e.Use(echoGuards(app.Guards)...)
		echoRoutes(e.Group(colons(Prefix)), app)
		return e
	}},
	{"echo Group", func(app App) http.Handler {
		e := echov4.New()
		echoRoutes(e.Group(colons(Prefix), echoGuards(app.Guards)...), app)
		return e
	}},
	{"echov5 Use over Group", func(app App) http.Handler {
		e := echov5.New()
		e.Use(echov5Guards(app.Guards)...)
		echov5Routes(e.Group(colons(Prefix)), app)
		return e
	}},
	{"echov5 Group", func(app App) http.Handler {
		e := echov5.New()
		echov5Routes(e.Group(colons(Prefix), echov5Guards(app.Guards)...), app)
		return e
	}},
}
