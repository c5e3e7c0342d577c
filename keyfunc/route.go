package keyfunc

import (
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// noRoute stands for the pattern of requests that match no route. It cannot be a pattern, because it has no slash.
const noRoute = "(none)"

// Method uses the method of the request: "method:GET". HEAD counts as GET. All methods that net/http has no constant
// for share "method:OTHER", so that clients gain nothing by inventing methods. It never fails.
func Method(r *http.Request) (string, error) {
	return "method:" + methodClass(r.Method), nil
}

// Pattern uses the route of the request, not its path: "route:/users/{id}", with the host if the pattern has one. The
// key never contains the method; use Join(Method, Pattern) to count GET and POST of a route separately. Requests that
// match no route share "route:(none)". If the adapter cannot find out the route, the error says where to mount the
// limiter.
//
// An adapter finds the pattern in its router. Without an adapter, the pattern is http.Request.Pattern, which is set
// only behind an http.ServeMux. All clients share the key of a route: Join it with the client's key to count each
// client separately.
func Pattern(r *http.Request) (string, error) {
	pattern, err := core.Route(r)
	if err != nil {
		return "", err
	}
	return "route:" + pathOf(pattern), nil
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

// pathOf returns pattern without the method that net/http allows in front of host and path.
func pathOf(pattern string) string {
	if i := strings.IndexAny(pattern, " \t"); i >= 0 && token(pattern[:i]) {
		pattern = trim(pattern[i:])
	}
	if pattern == "" {
		return noRoute
	}
	return pattern
}
