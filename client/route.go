package client

import (
	"net/http"
	"strings"
)

// A route stands for the requests that are likely to use the same budgets.
type route struct {
	seen    bool      // there was a response
	first   budget    // admits one request, and holds the others until there is a response
	budgets []*budget // the budgets of the last response that named any; never changed in place
	used    uint64
}

type routeKey struct{ method, segment string }

// routeOf returns the route of r: its method and first path segment.
func (a *account) routeOf(r *http.Request, clock uint64) *route {
	segment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	key := routeKey{r.Method, shortName(segment)}
	rt := a.routes[key]
	if rt == nil {
		if len(a.routes) >= maxRoutes {
			a.forgetRoute()
		}
		key.segment = strings.Clone(key.segment) // not the whole path
		rt = &route{first: budget{trial: trial{trying: true}}}
		a.routes[key] = rt
	}
	rt.used = clock
	return rt
}

// forgetRoute forgets the least recently used of a sample of routes. The route's calls continue.
func (a *account) forgetRoute() {
	var key routeKey
	var least *route
	sampled := 0
	for k, rt := range a.routes { // begins anywhere
		if sampled++; sampled > 16 {
			break
		}
		if least == nil || rt.used < least.used {
			key, least = k, rt
		}
	}
	delete(a.routes, key)
}
