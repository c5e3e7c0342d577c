package chilimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/testpass"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
)

// patterns returns a middleware whose key func appends the pattern it finds.
func patterns(found *[]string) func(http.Handler) http.Handler {
	return chilimit.New(core.Must(core.New([]core.Rule{core.PerHour(100).By(func(r *http.Request) (string, error) {
		*found = append(*found, core.RoutePattern(r))
		return "const:all", nil
	})})))
}

// TestNestedPatterns mounts the middleware at every level of nested routers. All find the same pattern, without the
// wildcards that join the levels.
func TestNestedPatterns(t *testing.T) {
	var found []string
	limit := func() func(http.Handler) http.Handler { return patterns(&found) }
	r := chi.NewRouter()
	r.Use(limit())
	r.Route("/api", func(r chi.Router) {
		r.Use(limit())
		r.Get("/", http.NotFound)
		r.Route("/users/{id}", func(r chi.Router) {
			r.Use(limit())
			r.With(limit()).Get("/posts/{post}", http.NotFound)
			r.With(limit()).Get("/files/*", http.NotFound)
		})
	})
	h := limit()(r)
	for _, row := range []struct {
		path, want string
		times      int
	}{
		{"/api/users/1/posts/2", "/api/users/{id}/posts/{post}", 5},
		{"/api/users/1/files/a/b", "/api/users/{id}/files/*", 5},
		{"/api/", "/api", 3},
		{"/api", "/api", 3},
		{"/elsewhere", "", 2},
	} {
		found = nil
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, row.path, nil))
		expect.True(t, slices.Equal(found, slices.Repeat([]string{row.want}, row.times)),
			"%s: %q, want %d times %q", row.path, found, row.times, row.want)
	}
}

// TestPatternsAfterRewrites checks patterns behind chi's middleware that changes the path or method.
func TestPatternsAfterRewrites(t *testing.T) {
	serve := func(method, path string, uses ...func(http.Handler) http.Handler) []string {
		var found []string
		r := chi.NewRouter()
		for _, use := range uses {
			r.Use(use)
		}
		r.Use(patterns(&found))
		r.Get("/users/{id}", http.NotFound)
		r.Mount("/opaque", http.NotFoundHandler())
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
		return found
	}
	override := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			chi.RouteContext(r.Context()).RouteMethod = "GET"
			next.ServeHTTP(w, r)
		})
	}
	for why, row := range map[string]struct {
		found []string
		want  string
	}{
		"a method that was overridden":    {serve("POST", "/users/1", override), "/users/{id}"},
		"StripSlashes":                    {serve("GET", "/users/1/", middleware.StripSlashes), "/users/{id}"},
		"GetHead before":                  {serve("HEAD", "/users/1", middleware.GetHead), "/users/{id}"},
		"HEAD without a route of its own": {serve("HEAD", "/users/1"), "/users/{id}"},
		"an escaped path":                 {serve("GET", "/users/a%2Fb"), "/users/{id}"},
		"a handler that cannot be asked":  {serve("GET", "/opaque/1"), "/opaque/*"},
		"a method without a route":        {serve("DELETE", "/users/1"), ""},
		"a method that chi does not know": {serve("BREW", "/users/1"), ""},
	} {
		expect.True(t, slices.Equal(row.found, []string{row.want}), "%s: %q, want %q", why, row.found, row.want)
	}
}

// TestPatternInMountedRouterBehindRewrite checks that the pattern belongs to the path that chi routes, not to the path in
// the URL, which matches no route.
func TestPatternInMountedRouterBehindRewrite(t *testing.T) {
	for _, row := range []struct{ mount, path, want string }{
		{"/api", "/api/users/1/", "/api/users/{id}"},
		{"/api/{version}", "/api/v2/users/1/", "/api/{version}/users/{id}"},
		{"/api/{version:v[0-9]{1,2}}", "/api/v2/users/1/", "/api/{version:v[0-9]{1,2}}/users/{id}"},
		{"/{a}-{b}", "/x-y/users/1/", "/{a}-{b}/users/{id}"},
		{"/api", "/api/nowhere/", ""},
		{"/", "/users/1/", "/users/{id}"},
	} {
		var found []string
		r := chi.NewRouter()
		r.Use(middleware.StripSlashes)
		r.Route(row.mount, func(r chi.Router) {
			r.Use(patterns(&found))
			r.Get("/users/{id}", http.NotFound)
			r.Route("/groups/{group}", func(r chi.Router) {
				r.Use(patterns(&found))
				r.Get("/users/{id}", http.NotFound)
			})
		})
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, row.path, nil))
		expect.True(t, slices.Equal(found, []string{row.want}), "%s in %s: found %q, want %q", row.path, row.mount, found, row.want)
		if row.want == "" {
			continue
		}
		found = nil
		nested := strings.Replace(row.path, "/users", "/groups/7/users", 1)
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, nested, nil))
		want := strings.Replace(row.want, "/users", "/groups/{group}/users", 1)
		expect.True(t, slices.Equal(found, []string{want, want}), "%s in %s: found %q, want twice %q", nested, row.mount, found, want)
	}
}

// TestPatternsWithBeforeMount checks a limiter in front of a mounted router, which finds the route only afterwards, and one
// in front of a route that ends in a wildcard.
func TestPatternsWithBeforeMount(t *testing.T) {
	for _, row := range []struct{ method, path, want string }{
		{"GET", "/api/v1/users", "/api/{version}/users"},
		{"HEAD", "/api/v1/users", "/api/{version}/users"},
		{"GET", "/api/v1//users/", "/api/{version}/users"},
		{"GET", "/api/v1/files/a", "/api/{version}/files/*"},
		{"GET", "/api/v1", "/api/{version}"},
		{"GET", "/api/v1/nowhere", ""},
		{"GET", "/api//users", ""}, // or, cleaned, version "users"
		{"GET", "/files/a/b", "/files/*"},
		{"GET", "/files//", "/files/*"},
		{"GET", "/files/../api/v1/users", "/files/*"},
		{"GET", "/opaque/a", "/opaque/*"},
	} {
		for _, prefix := range []string{"", "/in"} {
			for _, uses := range [][]func(http.Handler) http.Handler{nil, {middleware.URLFormat}, {middleware.GetHead}} {
				var found []string
				routes := func(r chi.Router) {
					limited := r.With(patterns(&found))
					sub := chi.NewRouter()
					sub.Use(middleware.CleanPath, middleware.StripSlashes)
					sub.Get("/", http.NotFound)
					sub.Get("/users", http.NotFound)
					sub.Get("/files/*", http.NotFound)
					limited.Mount("/api/{version}", sub)
					limited.Get("/files/*", http.NotFound)
					limited.Mount("/opaque", http.NotFoundHandler())
				}
				r := chi.NewRouter()
				r.Use(uses...)
				routes(r)
				r.Route("/in", routes)
				r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(row.method, prefix+row.path, nil))
				want := row.want
				if want != "" {
					want = prefix + want
				}
				expect.True(t, slices.Equal(found, []string{want}), "%s %s%s: %q, want %q", row.method, prefix, row.path, found, want)
			}
		}
	}
}

func TestPatternOutsideOpaqueHandler(t *testing.T) {
	adaptertest.CheckOpaque(t, guard, "mount the limiter by Use")
}

// TestPatternBehindOpaqueHandler checks a router that the outermost router cannot see: the whole pattern is known once the
// inner router has found the route.
func TestPatternBehindOpaqueHandler(t *testing.T) {
	var found []string
	inner := chi.NewRouter()
	inner.With(patterns(&found)).Get("/users/{id}", http.NotFound)
	r := chi.NewRouter()
	r.Mount("/api", http.HandlerFunc(inner.ServeHTTP))
	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/users/1", nil))
	expect.Elements(t, found, []string{"/api/users/{id}"}, "found")
}

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
			Routes: []string{"POST /api/login", "POST /files/{name}"}}
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
			"With and an empty name": func(r chi.Router, limit func(http.Handler) http.Handler, login http.HandlerFunc) {
				r.Use(set(func(c *chi.Context) { c.RouteMethod, c.RoutePath = "POST", "/files//" }))
				r.With(limit).Post("/files/{name}/", login)
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
			expect.Equal(t, logins, 5, "%s, %s: %s %s runs logins", why, place, row.method, path)
		}
	}
}

// TestPathsBehindRewrites checks that logins are limited by their route's limit, and that a skip frees no other handler,
// although middleware of chi changes the path, in front of the limiter or behind it.
func TestPathsBehindRewrites(t *testing.T) {
	testpass.Sequential(t)
	type use = func(http.Handler) http.Handler
	reroute := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				chi.RouteContext(r.Context()).RoutePath = "/login"
			}
			next.ServeHTTP(w, r)
		})
	}
	for why, uses := range map[string][]use{
		"CleanPath": {middleware.CleanPath}, "StripSlashes": {middleware.StripSlashes}, "both": {middleware.CleanPath, middleware.StripSlashes},
		"the other way round": {middleware.StripSlashes, middleware.CleanPath}, "RedirectSlashes": {middleware.RedirectSlashes},
		"StripSlashes and URLFormat": {middleware.StripSlashes, middleware.URLFormat}, "another path": {reroute},
	} {
		for place, build := range map[string]func(r chi.Router, guards []use, routes func(chi.Router)){
			"in front": func(r chi.Router, guards []use, routes func(chi.Router)) {
				r.Use(uses...)
				r.Use(guards...)
				routes(r)
			},
			"behind": func(r chi.Router, guards []use, routes func(chi.Router)) {
				r.Use(guards...)
				r.Use(uses...)
				routes(r)
			},
			"behind, mounted": func(r chi.Router, guards []use, routes func(chi.Router)) {
				r.Route("/", func(r chi.Router) {
					r.Use(guards...)
					r.Use(uses...)
					routes(r)
				})
			},
			"behind, above a mounted router": func(r chi.Router, guards []use, routes func(chi.Router)) {
				r.Use(guards...)
				r.Route("/", func(r chi.Router) {
					r.Use(uses...)
					routes(r)
				})
			},
		} {
			if why == "another path" && place != "in front" {
				continue // nobody can know it in advance
			}
			t.Run(why+", "+place, func(t *testing.T) {
				adaptertest.RunPaths(t, adaptertest.Adapter{Build: func(app adaptertest.App) http.Handler {
					r := chi.NewRouter()
					build(r, all(app.Guards), func(r chi.Router) {
						r.Use(app.Cleaned)
						routes(r, app)
					})
					return r
				}})
			})
		}
	}
}
