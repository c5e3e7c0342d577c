// Package routers tests limiters in each router: wherever they are mounted, a request is charged once and has its route's pattern as its
// key, and Rule.Routes matches every path by which a router serves a guarded route. Routers without an adapter use the one for net/http.
package routers
