package core

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
)

// A Router is for adapters, which implement it to find the route of a request. If a router may route a request by another
// method or path than the request's own, its Router also has a method RouteTarget(r *http.Request) (method, path string).
// Rule.Routes and the skips of rules files read what it returns as well. Empty strings mean the request's own. If a framework has
// the request in a context of its own, its Router has a method SetRequest(r *http.Request): Guard calls it with Guard.Request before
// any callback runs, so that callbacks and handlers read the same request.
type Router interface {
	// RoutePattern returns the pattern of the route that will serve r, or "" if no route matches. If the route cannot
	// be known at the adapter's place in the chain of handlers, the error says where to mount the limiter. If it cannot
	// be known because r's path is ambiguous, the error wraps ErrBadKey.
	RoutePattern(r *http.Request) (string, error)
}

// RoutePattern returns the pattern of the route that serves r, such as "/users/{id}". It asks the adapter's Router; if
// there is none, it returns r.Pattern. It returns "" if no route matches r.
//
// If the adapter cannot find out the route, RoutePattern returns "" too. If a skip, Match, Cost, Tier or key func has
// called it, the decision then fails with the error of Route, because the request would look like one that matches no
// route.
func RoutePattern(r *http.Request) string {
	pattern, err := Route(r)
	if err != nil {
		if c := carriedBy(r.Context()); c != nil && c.receipt.limiter != nil && c.receipt.stage != decided {
			c.receipt.more().route = err
		}
	}
	return pattern
}

// Route is RoutePattern for key funcs, which can return an error. If the adapter cannot find out the route of any
// request, the error wraps ErrInvalid and says where to mount the limiter. If only the path of r is ambiguous, such as
// "//login", which another router or a middleware may read as "/login", the error wraps ErrBadKey.
func Route(r *http.Request) (string, error) {
	var hint error
	for c := carriedBy(r.Context()); c != nil; c = c.before() {
		if c.router == nil {
			continue
		}
		pattern, err := c.router.RoutePattern(r)
		if err == nil {
			return pattern, nil
		}
		hint = cmp.Or(hint, err)
	}
	if errors.Is(hint, ErrBadKey) { // r.Pattern may be an outer router's, of which the adapter's router is one route
		return "", hint
	}
	if r.Pattern != "" {
		return r.Pattern, nil
	}
	text := fmt.Sprintf("the route of the request is not known here: %v", cmp.Or(hint, errNoRouter))
	return "", &textError{text, []error{ErrInvalid, errNoRouter}}
}

var errNoRouter = errors.New("check it in a handler of an http.ServeMux, or use an adapter")
