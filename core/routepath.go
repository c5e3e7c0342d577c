package core

import (
	"net"
	"net/url"
	"path"
	"strings"
)

// A reading is a way to read the path of a request. Routers differ: net/http cleans the path and then unescapes each
// segment, gin unescapes the path and then may clean it, chi and echo take it as it is unless a middleware cleans it.
type reading struct {
	path    string
	escaped bool // to be unescaped segment by segment
}

// readings appends all readings of u to dst. Each begins with a slash and has none at its end.
func readings(u *url.URL, dst []reading) []reading {
	dst = append(dst, reading{trimSlashes(u.Path), false}, reading{path.Clean("/" + u.Path), false})
	if u.RawPath != "" {
		dst = append(dst, reading{trimSlashes(u.RawPath), true}, reading{path.Clean("/" + u.RawPath), true})
	}
	return dst
}

// trimSlashes returns p with a slash at its start and none at its end.
func trimSlashes(p string) string {
	p = strings.TrimRight(p, "/")
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return p
}

// isClean reports whether all readings of p are p itself, apart from a slash at its end: it begins with a slash, and no
// segment is empty, "." or "..".
func isClean(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	for i := range len(p) - 1 {
		if p[i] == '/' && (p[i+1] == '/' || p[i+1] == '.' && isDots(p[i+1:])) {
			return false
		}
	}
	return true
}

// isDots reports whether the first segment of p is "." or "..".
func isDots(p string) bool {
	name, _, _ := strings.Cut(p, "/")
	return name == "." || name == ".."
}

// unescape returns name without its escapes, or as it is if one of them is wrong.
func unescape(name string) string {
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

// cleanHost returns host in lower case, without its port, its brackets and a dot at its end.
func cleanHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
