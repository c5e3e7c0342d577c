// Package routes finds which of several sets of http.ServeMux patterns match a request. All sets with a pattern that
// matches count, not only the one with the most specific pattern, and a path counts in each way in which a router may
// read it.
package routes
