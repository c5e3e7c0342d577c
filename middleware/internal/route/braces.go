// Package route converts the route patterns of all frameworks to net/http's, without the method.
//
//	route.Braces("/users/:id") // "/users/{id}"
package route

import "strings"

// Braces returns a pattern of gin or echo as net/http writes it: "/users/:id" is "/users/{id}", "/files/*path" is
// "/files/{path...}", and so is "/files/*", whose parameter has no name. "\:" is a colon.
func Braces(pattern string) string {
	if !strings.ContainsAny(pattern, ":*") {
		return pattern
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && strings.HasPrefix(pattern[i+1:], ":"):
			i++
			b.WriteByte(':')
		case c == ':' || c == '*':
			name, _, _ := strings.Cut(pattern[i+1:], "/")
			i += len(name)
			b.WriteString(parameter(c, name))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func parameter(kind byte, name string) string {
	if kind == ':' {
		return "{" + name + "}"
	}
	if name == "" {
		name = "path"
	}
	return "{" + name + "...}"
}

// Fill returns a pattern as Braces returns it with the values of its parameters, which is the path that the router has
// found, or "" if a parameter has no value.
func Fill(pattern string, value func(name string) string) (path string) {
	for {
		before, rest, found := strings.Cut(pattern, "{")
		name, after, _ := strings.Cut(rest, "}")
		if path += before; !found || name == "$" {
			return path
		}
		name, multi := strings.CutSuffix(name, "...")
		v := value(name)
		switch {
		case v == "":
			return ""
		case multi:
			v = strings.TrimPrefix(v, "/") // gin's
		default:
			v = strings.ReplaceAll(v, "/", "%2F")
		}
		path, pattern = path+v, after
	}
}

// WithoutMethod returns the path of a pattern of net/http, and its host if it has one: "GET /users/{id}" is "/users/{id}".
func WithoutMethod(pattern string) string {
	if i := strings.IndexAny(pattern, " \t/"); i > 0 && pattern[i] != '/' {
		return strings.TrimLeft(pattern[i:], " \t")
	}
	return pattern
}
