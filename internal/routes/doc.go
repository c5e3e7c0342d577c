// Package routes finds which of several sets of http.ServeMux patterns match a request. All sets with a matching
// pattern match, not only the set with the most specific pattern. A path matches if any of the ways in which routers
// may read it matches. A path is covered, which frees a request of its limits, only if all of them match.
package routes
