package keyfunc

import (
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// noRoute stands for the pattern of requests that match no route. No router takes it for a pattern: it has no slash.
const noRoute = "(none)"

// Method is the method of the request: "method:GET". HEAD counts as GET, and all methods that net/http has no name for
// share "method:OTHER", so that inventing methods wins nothing. It never fails.
func Method(r *http.Request) (string, error) {
	return "method:" + methodClass(r.Method), nil
}

// Pattern is the route of the request, not its path: "route:GET /users/{id}", with the method as in Method and the host
// if the pattern has one. Requests that match no route share "route:GET (none)". It never fails.
//
// The pattern is what an adapter finds in its router or, without one, http.Request.Pattern, which is set only behind an
// http.ServeMux. All clients share the key of a route: Join it with whose request it is to count each apart.
func Pattern(r *http.Request) (string, error) {
	return "route:" + methodClass(r.Method) + " " + path(core.RoutePattern(r)), nil
}

func methodClass(method string) string {
	switch method {
	case "", http.MethodGet, http.MethodHead:
		return http.MethodGet
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "OTHER"
}

// path returns pattern without the method that net/http allows in front of host and path.
func path(pattern string) string {
	if i := strings.IndexAny(pattern, " \t"); i >= 0 && token(pattern[:i]) {
		pattern = trim(pattern[i:])
	}
	if pattern == "" {
		return noRoute
	}
	return pattern
}
