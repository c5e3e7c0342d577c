package apps

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	chilimit "github.com/spillgate/spillgate/middleware/chi"
)

func chiGuards(guards []Guard) (ms []func(http.Handler) http.Handler) {
	for _, g := range guards {
		ms = append(ms, chilimit.New(g.Limiter,
			chilimit.WithHeaders(g.Headers), chilimit.WithDenyHandler(g.Deny), chilimit.WithErrorHandler(g.Fail)))
	}
	return ms
}

func chiRoutes(r chi.Router, app App) {
	for _, route := range app.Routes {
		r.With(chiGuards(route.Guards)...).Handle(route.Pattern, route.Handler)
	}
}

func chiUse(app App) http.Handler {
	r := chi.NewRouter()
	r.Use(chiGuards(app.Guards)...)
	chiRoutes(r, app)
	return r
}

func chiGroup(app App) http.Handler {
	r := chi.NewRouter()
	r.Group(func(r chi.Router) {
		r.Use(chiGuards(app.Guards)...)
		chiRoutes(r, app)
	})
	return r
}

func chiWith(app App) http.Handler {
	r := chi.NewRouter()
	chiRoutes(r, perRoute(app))
	return r
}

func chiMounted(app App) http.Handler {
	r := chi.NewRouter()
	r.Mount("/", chiUse(app))
	return r
}

func chiOver(app App) http.Handler {
	r := chi.NewRouter()
	r.Use(chiGuards(app.Guards)...)
	r.Mount("/", chiUse(App{Routes: app.Routes}))
	return r
}

func chiRoute(app App) http.Handler {
	r := chi.NewRouter()
	r.Use(chiGuards(app.Guards)...)
	r.Route("/", func(r chi.Router) { chiRoutes(r, app) })
	return r
}

func chiAround(app App) http.Handler {
	var h http.Handler = chiUse(App{Routes: app.Routes}).(chi.Router)
	ms := chiGuards(app.Guards)
	for i := len(ms) - 1; i >= 0; i-- {
		h = ms[i](h)
	}
	return h
}
