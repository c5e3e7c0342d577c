package chilimit

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// routeOf returns the function that finds the route pattern of a request in front of next: "/users/{id}", in the
// notation of chi, with the patterns of nested routers joined.
func routeOf(next http.Handler) func(*http.Request) string {
	around, _ := next.(chi.Routes)
	return func(r *http.Request) string {
		c := chi.RouteContext(r.Context())
		switch {
		case c != nil && routed(c):
			return c.RoutePattern()
		case c != nil && c.Routes != nil:
			if pattern := find(c.Routes, methodOf(c, r), pathOf(c, r)); pattern != "" {
				return pattern
			}
			return c.RoutePattern()
		case around != nil:
			return find(around, r.Method, pathOf(nil, r))
		}
		return ""
	}
}

// routed reports whether chi has found the route. Until then, the last pattern is that of a mounted router, if any.
func routed(c *chi.Context) bool {
	n := len(c.RoutePatterns)
	return n > 0 && !strings.HasSuffix(c.RoutePatterns[n-1], "*")
}

// find asks the outermost router, since a mounted one is not to be had here. HEAD is looked up as GET where there is no
// route for it, because chi's middleware GetHead may come later.
func find(routes chi.Routes, method, path string) string {
	pattern := routes.Find(chi.NewRouteContext(), method, path)
	if pattern == "" && method == http.MethodHead {
		pattern = routes.Find(chi.NewRouteContext(), http.MethodGet, path)
	}
	if pattern == "/" {
		return pattern
	}
	return strings.TrimSuffix(strings.TrimSuffix(pattern, "//"), "/")
}

func methodOf(c *chi.Context, r *http.Request) string {
	if c.RouteMethod != "" {
		return c.RouteMethod
	}
	return r.Method
}

// pathOf returns the path that the outermost router looks up. One that a middleware has set, such as StripSlashes, goes
// before that of the request, as long as it is whole: within a mounted router it is the rest.
func pathOf(c *chi.Context, r *http.Request) string {
	switch {
	case c != nil && c.RoutePath != "" && len(c.RoutePatterns) == 0:
		return c.RoutePath
	case r.URL.RawPath != "":
		return r.URL.RawPath
	case r.URL.Path != "":
		return r.URL.Path
	}
	return "/"
}
