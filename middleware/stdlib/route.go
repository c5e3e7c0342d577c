package stdlib

import (
	"errors"
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/route"
)

// A mux finds the handler of a request, like *http.ServeMux.
type mux interface {
	Handler(*http.Request) (h http.Handler, pattern string)
}

// maxDepth bounds how many nested muxes RoutePattern searches.
const maxDepth = 8

var errUnknown = errors.New("mount the limiter directly around an http.ServeMux or around the handlers in it, or use the adapter of your router; " +
	"the handler that it wraps is neither a mux nor in one")

// router knows the routes of requests to next.
type router struct{ next http.Handler }

func newRouter(next http.Handler) core.Router { return router{next} }

// RoutePattern implements core.Router. If an outer mux has found a pattern, RoutePattern searches next only if the
// pattern is a subtree, which next may divide.
func (n router) RoutePattern(r *http.Request) (string, error) {
	pattern, known := r.Pattern, r.Pattern != ""
	for h, depth := n.next, 0; depth < maxDepth && isSubtree(pattern); depth++ {
		m, ok := h.(mux)
		if !ok {
			break
		}
		known = true
		inner, found := m.Handler(r)
		if found == "" {
			break
		}
		h, pattern = inner, found
	}
	if !known {
		return "", errUnknown
	}
	return route.WithoutMethod(pattern), nil
}

// RouteTarget says which method and path an outer mux has routed, if next is not another mux, whatever they are now: see
// core.Router.
func (n router) RouteTarget(r *http.Request) (method, path string) {
	pattern := route.WithoutMethod(r.Pattern)
	if _, ok := n.next.(mux); ok || strings.HasSuffix(pattern, "/") || !strings.Contains(pattern, "/") {
		return "", ""
	}
	method, _, found := strings.Cut(r.Pattern, " ")
	if !found {
		method = ""
	}
	return method, route.Fill(pattern[strings.IndexByte(pattern, '/'):], func(name string) (value string) {
		defer func() {
			if recover() != nil { // PathValue panics if a wildcard has matched an empty segment of a CONNECT
				value = "/" // matches only wildcards
			}
		}()
		return r.PathValue(name)
	})
}

// isSubtree reports whether pattern may contain more than one route.
func isSubtree(pattern string) bool {
	return pattern == "" || strings.HasSuffix(pattern, "/") || strings.HasSuffix(pattern, "...}")
}
