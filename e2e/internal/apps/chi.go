package apps

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	chilimit "github.com/spillgate/spillgate/middleware/chi"
)

func chiGuards(guards []Guard) (ms []func(http.Handler) http.Handler) {
	for _, g := range guards {
		ms = append(ms, chilimit.New(g.Limiter, chilimit.WithHeaders(g.Headers)))
	}
	return ms
}

func chiUse(app App) http.Handler {
	r := chi.NewRouter()
	r.Use(chiGuards(app.Guards)...)
	for _, route := range app.Routes {
		r.With(chiGuards(route.Guards)...).Handle(route.Pattern, route.Handler)
	}
	return r
}
