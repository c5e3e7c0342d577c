package chilimit

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/route"
)

var errUnknown = errors.New("mount the limiter by Use, With or Group of a chi router, or directly around one; " +
	"the handler that it wraps is neither a router nor in one")

// router knows the routes of requests to a handler. Patterns are in the notation of chi, "/users/{id}", and the patterns
// of nested routers are joined.
type router struct{ around chi.Routes } // nil if the handler is no chi router

func newRouter(next http.Handler) core.Router {
	around, _ := next.(chi.Routes)
	return router{around}
}

// RoutePattern implements core.Router.
func (n router) RoutePattern(r *http.Request) (string, error) {
	c := chi.RouteContext(r.Context())
	switch {
	case c != nil && routed(c) && !mounts(c):
		return c.RoutePattern(), nil
	case c != nil && c.Routes != nil:
		return find(c.Routes, methodOf(c, r), urlOf(c, r))
	case n.around != nil:
		return find(n.around, r.Method, r.URL)
	}
	return "", errUnknown
}

// RouteTarget says which method and path chi routes, whatever the path of the request is now: see core.Router.
func (n router) RouteTarget(r *http.Request) (method, path string) {
	c := chi.RouteContext(r.Context())
	if c == nil {
		return "", ""
	}
	return c.RouteMethod, urlOf(c, &http.Request{URL: new(url.URL)}).Path
}

// routed reports whether the patterns in c match the whole path. In a mounted router, until it finds the route, the last
// pattern ends in a wildcard without a value.
func routed(c *chi.Context) bool {
	n, values := len(c.RoutePatterns), c.URLParams.Values
	return n > 0 && (!strings.HasSuffix(c.RoutePatterns[n-1], "*") || len(values) > 0 && values[len(values)-1] != "")
}

// mounts reports whether the route in c leads to a mounted router, which has yet to find its own route: the limiter is
// mounted by With before Mount. The wildcard at the end has a value then, as in the route "/files/*". The outermost router
// tells the two apart: it finds a further pattern, or no route, only behind a mounted router.
func mounts(c *chi.Context) bool {
	n := len(c.RoutePatterns)
	if c.Routes == nil || !strings.HasSuffix(c.RoutePatterns[n-1], "*") {
		return false
	}
	again := chi.NewRouteContext()
	return !c.Routes.Match(again, c.RouteMethod, cmp.Or(mountedPath(c), "/")) || len(again.RoutePatterns) > n
}

// find looks a URL up in the outermost router, because the context does not have the mounted one. find looks up HEAD as
// GET if there is no route for HEAD, because chi's middleware GetHead may come later.
func find(routes chi.Routes, method string, u *url.URL) (string, error) {
	return route.Find(u, func(u *url.URL) string {
		path := cmp.Or(u.RawPath, u.Path, "/")
		c := chi.NewRouteContext()
		found := routes.Match(c, method, path)
		if !found && method == http.MethodHead {
			c = chi.NewRouteContext()
			found = routes.Match(c, http.MethodGet, path)
		}
		if !found {
			return ""
		}
		return c.RoutePattern()
	})
}

func methodOf(c *chi.Context, r *http.Request) string {
	if c.RouteMethod != "" {
		return c.RouteMethod
	}
	return r.Method
}

// urlOf returns what to look up in the outermost router. A path that a middleware has set, such as StripSlashes, has
// precedence over the request's path.
func urlOf(c *chi.Context, r *http.Request) *url.URL {
	if len(c.RoutePatterns) == 0 && c.RoutePath == "" {
		return r.URL
	}
	if routed(c) {
		return &url.URL{Path: cmp.Or(mountedPath(c), "/")} // RoutePath is a part of it
	}
	return &url.URL{Path: mountedPath(c) + c.RoutePath}
}

// mountedPath returns the part of the path that the patterns of the outer routers have matched: the patterns with the
// values in c in place of their parameters. The wildcards of mounted routers that have been entered are empty.
func mountedPath(c *chi.Context) string {
	path, values := "", c.URLParams.Values
	for _, pattern := range c.RoutePatterns {
		mounted := false // the pattern ends in "*" without a value, as in "/api/*" of a mounted router
		for pattern != "" {
			n := strings.IndexAny(pattern, "{*")
			if n < 0 || len(values) == 0 {
				path += pattern
				break
			}
			path += pattern[:n] + values[0]
			mounted = pattern[n] == '*' && values[0] == ""
			pattern, values = pattern[n+parameterLength(pattern[n:]):], values[1:]
		}
		if mounted {
			path = strings.TrimSuffix(path, "/")
		}
	}
	return path
}

// parameterLength returns the length of the parameter that pattern starts with: "{id}", "{id:[0-9]{4}}" or "*".
func parameterLength(pattern string) int {
	open := 0
	for i, c := range pattern {
		switch c {
		case '{':
			open++
		case '}':
			open--
		}
		if open == 0 {
			return i + 1
		}
	}
	return len(pattern)
}
