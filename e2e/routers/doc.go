// Package routers tests limiters in each router. Rule.Routes matches every path by which a router serves a guarded route, and limiters on a
// group and on one of its routes both charge a request. Routers without an adapter use the adapter for net/http.
package routers
