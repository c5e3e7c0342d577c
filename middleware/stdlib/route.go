package stdlib

import (
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/middleware/internal/route"
)

// A mux tells which handler serves a request. *http.ServeMux is one.
type mux interface {
	Handler(*http.Request) (h http.Handler, pattern string)
}

// maxDepth bounds how many muxes in muxes are asked.
const maxDepth = 8

// routeOf returns the function that finds the route pattern of a request in front of next. Where a mux has found one
// already, next is asked only if that stands for a subtree, which next may divide further.
func routeOf(next http.Handler) func(*http.Request) string {
	return func(r *http.Request) string {
		pattern := r.Pattern
		for h, depth := next, 0; depth < maxDepth && isSubtree(pattern); depth++ {
			m, ok := h.(mux)
			if !ok {
				break
			}
			inner, found := m.Handler(r)
			if found == "" {
				break
			}
			h, pattern = inner, found
		}
		return route.WithoutMethod(pattern)
	}
}

// isSubtree reports whether pattern stands for more than one route.
func isSubtree(pattern string) bool {
	return pattern == "" || strings.HasSuffix(pattern, "/") || strings.HasSuffix(pattern, "...}")
}
