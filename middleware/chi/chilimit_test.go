package chilimit_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	chilimit "github.com/spillgate/spillgate/middleware/chi"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
)

func guard(g adaptertest.Guard) func(http.Handler) http.Handler {
	g = g.Through(chilimit.WriteDenial, chilimit.WriteError)
	return chilimit.New(g.Limiter, chilimit.WithHeaders(g.Headers), chilimit.WithDenyHandler(g.Deny), chilimit.WithErrorHandler(g.Fail))
}

func all(guards []adaptertest.Guard) (ms []func(http.Handler) http.Handler) {
	for _, g := range guards {
		ms = append(ms, guard(g))
	}
	return ms
}

func routes(r chi.Router, app adaptertest.App) {
	for _, route := range app.Routes {
		for _, method := range adaptertest.Methods {
			r.With(all(route.Guards)...).Method(method, route.Pattern, route.Handler)
		}
	}
}

func use(app adaptertest.App) http.Handler {
	r := chi.NewRouter()
	r.Use(all(app.Guards)...)
	r.Use(app.Cleaned)
	routes(r, app)
	return r
}

func group(app adaptertest.App) http.Handler {
	r := chi.NewRouter()
	r.Group(func(r chi.Router) {
		r.Use(all(app.Guards)...)
		routes(r, app)
	})
	return app.Cleaned(r)
}

// mounted guards a router that is mounted in another router.
func mounted(app adaptertest.App) http.Handler {
	r := chi.NewRouter()
	r.Mount("/", use(app))
	return r
}

// over guards a router in which another router is mounted.
func over(app adaptertest.App) http.Handler {
	inner := chi.NewRouter()
	routes(inner, app)
	r := chi.NewRouter()
	r.Use(all(app.Guards)...)
	r.Use(app.Cleaned)
	r.Mount("/", inner)
	return r
}

// around guards a router like any other handler.
func around(app adaptertest.App) http.Handler {
	r := chi.NewRouter()
	routes(r, app)
	h := app.Cleaned(r)
	for i := len(app.Guards) - 1; i >= 0; i-- {
		h = guard(app.Guards[i])(h)
	}
	return h
}

// again serves requests that a handler of app has rewritten. It removes chi's routing context, which belongs to the old path.
func again(app http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		app.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, (*chi.Context)(nil))))
	})
}

func TestContract(t *testing.T) {
	t.Run("Use", func(t *testing.T) { adaptertest.Run(t, adaptertest.Adapter{Build: use, Again: again}) })
	t.Run("Group", func(t *testing.T) {
		adaptertest.RunPlaced(t, adaptertest.Adapter{Build: group, Again: again, RoutedOnly: true})
	})
	t.Run("mounted", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: mounted, Again: again}) })
	t.Run("over a mounted", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: over, Again: again}) })
	t.Run("around", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: around, Again: again}) })
}

func FuzzCalls(f *testing.F) { adaptertest.FuzzCalls(f, adaptertest.Adapter{Build: use}) }
