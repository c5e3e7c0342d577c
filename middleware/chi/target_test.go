package chilimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/spillgate/spillgate/core"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
)

// TestRoutesBehindRewrites checks that Rule.Routes reads the method and path that chi routes by, which middleware in
// front of the limiter changes without changing the request: wherever the limiter is mounted, logins are limited.
func TestRoutesBehindRewrites(t *testing.T) {
	set := func(change func(c *chi.Context)) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				change(chi.RouteContext(r.Context()))
				next.ServeHTTP(w, r)
			})
		}
	}
	for why, row := range map[string]struct {
		rewrite        func(http.Handler) http.Handler
		method, suffix string
	}{
		"URLFormat":    {middleware.URLFormat, "POST", ".json"},
		"StripSlashes": {middleware.StripSlashes, "POST", "/"},
		"a path":       {set(func(c *chi.Context) { c.RoutePath = "/api/login" }), "POST", "/x"},
		"a method":     {set(func(c *chi.Context) { c.RouteMethod = "POST" }), "GET", ""},
		"both":         {set(func(c *chi.Context) { c.RouteMethod, c.RoutePath = "POST", "/api/login" }), "GET", "/x"},
	} {
		rule := core.Rule{Key: func(*http.Request) (string, error) { return "const:all", nil }, Limits: []core.Limit{core.PerHour(5)},
			Routes: []string{"POST /api/login", "POST /files/login"}}
		for place, build := range map[string]func(r chi.Router, limit func(http.Handler) http.Handler, login http.HandlerFunc){
			"Use": func(r chi.Router, limit func(http.Handler) http.Handler, login http.HandlerFunc) {
				r.Use(row.rewrite, middleware.CleanPath, limit)
				r.Post("/api/login", login)
			},
			"With": func(r chi.Router, limit func(http.Handler) http.Handler, login http.HandlerFunc) {
				r.Use(row.rewrite, middleware.CleanPath)
				r.With(limit).Post("/api/{page}", login)
			},
			"With and a wildcard": func(r chi.Router, limit func(http.Handler) http.Handler, login http.HandlerFunc) {
				r.Use(row.rewrite, middleware.CleanPath)
				r.With(limit).Post("/api/*", login)
			},
			"mounted": func(r chi.Router, limit func(http.Handler) http.Handler, login http.HandlerFunc) {
				r.Use(row.rewrite, middleware.CleanPath)
				r.Route("/{version}", func(r chi.Router) {
					r.Use(limit)
					r.Post("/login", login)
				})
			},
			"mounted With": func(r chi.Router, limit func(http.Handler) http.Handler, login http.HandlerFunc) {
				r.Use(row.rewrite, middleware.CleanPath)
				r.Route("/api", func(r chi.Router) { r.With(limit).Post("/*", login) })
			},
		} {
			logins := 0
			r := chi.NewRouter()
			build(r, chilimit.New(core.Must(core.New([]core.Rule{rule}))), func(http.ResponseWriter, *http.Request) { logins++ })
			path := "/api/login" + row.suffix
			if why == "StripPrefix" {
				path = "/v1" + path
			}
			for range 20 {
				r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(row.method, path, nil))
			}
			if logins != 5 {
				t.Errorf("%s, %s: %s %s runs %d logins, want 5", why, place, row.method, path, logins)
			}
		}
	}
}

// TestSkipsBehindRewrites checks that a skip never frees another handler behind middleware of chi.
func TestSkipsBehindRewrites(t *testing.T) {
	for why, uses := range map[string][]func(http.Handler) http.Handler{
		"CleanPath": {middleware.CleanPath}, "StripSlashes": {middleware.StripSlashes}, "both": {middleware.CleanPath, middleware.StripSlashes},
		"StripSlashes and URLFormat": {middleware.StripSlashes, middleware.URLFormat},
	} {
		t.Run(why, func(t *testing.T) {
			adaptertest.RunSkips(t, adaptertest.Adapter{Build: func(app adaptertest.App) http.Handler {
				r := chi.NewRouter()
				r.Use(uses...)
				r.Use(all(app.Guards)...)
				r.Use(app.Cleaned)
				routes(r, app)
				return r
			}})
		})
	}
}

// TestSkipReadsRoutePath checks that a skip does not apply if chi routes the request by another path.
func TestSkipReadsRoutePath(t *testing.T) {
	adaptertest.RunSkips(t, adaptertest.Adapter{Build: func(app adaptertest.App) http.Handler {
		r := chi.NewRouter()
		r.Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					chi.RouteContext(r.Context()).RoutePath = "/login"
				}
				next.ServeHTTP(w, r)
			})
		})
		r.Use(all(app.Guards)...)
		r.Use(app.Cleaned)
		routes(r, app)
		return r
	}})
}
