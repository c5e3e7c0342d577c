package core

import (
	"cmp"
	"errors"
	"net/http"
)

// A Router is for adapters, which implement it to find the route of a request.
type Router interface {
	// RoutePattern returns the pattern of the route that will serve r, or "" if no route matches. If the route cannot
	// be known at the adapter's place in the chain of handlers, the error says where to mount the limiter.
	RoutePattern(r *http.Request) (string, error)
}

// RoutePattern returns the pattern of the route that serves r, such as "/users/{id}". It asks the adapter's Router; if
// there is none, it returns r.Pattern. It returns "" if no route matches r.
//
// If the adapter cannot find out the route, RoutePattern returns "" too. If a skip, Match, Cost, Tier or key func has
// called it, the decision then fails with ErrInvalid, because the request would look like one that matches no route.
func RoutePattern(r *http.Request) string {
	pattern, err := Route(r)
	if err != nil {
		if c := carriedBy(r.Context()); c != nil && c.receipt.limiter != nil && c.receipt.stage != decided {
			c.receipt.more().route = err
		}
	}
	return pattern
}

// Route is RoutePattern for key funcs, which can return an error. The error wraps ErrInvalid if the adapter cannot find
// out the route of r, and says where to mount the limiter.
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
	if r.Pattern != "" {
		return r.Pattern, nil
	}
	return "", invalid("the route of the request is not known here: %v", cmp.Or(hint, errNoRouter))
}

var errNoRouter = errors.New("check it in a handler of an http.ServeMux, or use an adapter")
