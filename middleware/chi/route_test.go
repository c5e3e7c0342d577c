package chilimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/spillgate/spillgate/core"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
)

// patterns returns a middleware whose key func appends the pattern it finds.
func patterns(found *[]string) func(http.Handler) http.Handler {
	return chilimit.New(core.Must(core.New([]core.Rule{core.PerHour(100).By(func(r *http.Request) (string, error) {
		*found = append(*found, core.RoutePattern(r))
		return "const:all", nil
	})})))
}

// TestNestedPatterns mounts the middleware at every level of nested routers. All find the same, without the wildcards
// that join the levels.
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
		if !slices.Equal(found, slices.Repeat([]string{row.want}, row.times)) {
			t.Errorf("%s: %q, want %d times %q", row.path, found, row.times, row.want)
		}
	}
}

// TestPatternsAfterRewrites checks middleware of chi that changes what is routed.
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
		if !slices.Equal(row.found, []string{row.want}) {
			t.Errorf("%s: %q, want %q", why, row.found, row.want)
		}
	}
}

// TestPatternOfRestOnly checks a mounted router behind a rewrite: what is left is the pattern of the mount, never the path.
func TestPatternOfRestOnly(t *testing.T) {
	var found []string
	r := chi.NewRouter()
	r.Use(middleware.StripSlashes)
	r.Route("/api", func(r chi.Router) {
		r.Use(patterns(&found))
		r.Get("/users/{id}", http.NotFound)
	})
	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/users/1/", nil))
	if !slices.Equal(found, []string{"/api/*"}) {
		t.Errorf("found %q", found)
	}
}

// TestPatternBehindOpaque checks a router that the outermost cannot see: once it has found the route, all is known.
func TestPatternBehindOpaque(t *testing.T) {
	var found []string
	inner := chi.NewRouter()
	inner.With(patterns(&found)).Get("/users/{id}", http.NotFound)
	r := chi.NewRouter()
	r.Mount("/api", http.HandlerFunc(inner.ServeHTTP))
	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/users/1", nil))
	if !slices.Equal(found, []string{"/api/users/{id}"}) {
		t.Errorf("found %q", found)
	}
}
