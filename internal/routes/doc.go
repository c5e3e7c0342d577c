// Package routes finds which of several sets of http.ServeMux patterns match a request. All sets with a matching
// pattern match, not only the set with the most specific pattern. A path matches if any of the ways in which routers
// may read it matches.
package routes
