package core

import (
	"cmp"
	"errors"
	"net/http"
)

// A Router is what an adapter implements to tell core the route of a request.
type Router interface {
	// RoutePattern returns the pattern of the route that is going to serve r, and "" if no route matches. If the route
	// cannot be known at the adapter's place in the chain of handlers, the error says where to mount the limiter.
	RoutePattern(r *http.Request) (string, error)
}

// RoutePattern returns the pattern of the route that serves r, such as "/users/{id}". It asks the adapter, and falls back
// to r.Pattern. It is empty if no route matches r.
//
// If the route cannot be known, RoutePattern returns "" to a handler. In a skip, Match, Cost, Tier or key func, the
// decision then fails with ErrInvalid, because "" would look like a request that matches no route.
func RoutePattern(r *http.Request) string {
	pattern, err := Route(r)
	if err != nil {
		if c := carriedBy(r.Context()); c != nil && c.receipt.limiter != nil && c.receipt.stage != decided {
			c.receipt.more().route = err
		}
	}
	return pattern
}

// Route is RoutePattern for key funcs, which can return an error. The error wraps ErrInvalid if the route of r cannot be
// known, and says where to mount the limiter.
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

// routeError returns the error of a callback that has asked for a route which is not known.
func (c *receipt) routeError() error {
	if c.extra == nil {
		return nil
	}
	return c.extra.route
}
