package routes

import (
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// An Index finds the sets of patterns that match a request, in one walk along its path. It never changes.
type Index struct {
	everywhere []int    // empty sets
	anyHost    *segment // of patterns without a host; nil if there are none
	hosts      map[string]*segment
}

// A segment is a node of a tree of patterns. Its children are the segments that may follow it in a path.
type segment struct {
	literal map[string]*segment
	wild    *segment // {x}
	exact   []route  // patterns that end here: "/login", "/login/{$}"
	below   []route  // patterns for this path and all below it: "/api/", "/api/{rest...}"
}

// A route is a pattern without its path.
type route struct {
	method string // empty: any
	set    int
}

func (t route) covers(method string) bool {
	return t.method == "" || t.method == method || t.method == http.MethodGet && method == http.MethodHead
}

// Match appends to dst the indexes of the sets that match r, in order. An empty set matches every request.
func (x *Index) Match(r *http.Request, dst []int) []int {
	start := len(dst)
	dst = append(dst, x.everywhere...)
	if x.anyHost == nil && len(x.hosts) == 0 {
		return dst
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	trees := [2]*segment{x.anyHost}
	if len(x.hosts) > 0 {
		trees[1] = x.hosts[cleanHost(r.Host)]
	}
	for _, tree := range trees {
		if tree != nil {
			dst = tree.matchAll(r.URL, method, dst)
		}
	}
	slices.Sort(dst[start:])
	return dst[:start+len(slices.Compact(dst[start:]))]
}

// matchAll appends the sets of the patterns that match u, in whatever way a router may read it.
func (s *segment) matchAll(u *url.URL, method string, dst []int) []int {
	if u == nil {
		return s.match("/", method, false, dst)
	}
	if u.RawPath == "" && isClean(u.Path) {
		return s.match(u.Path, method, false, dst)
	}
	var room [4]reading
	for _, p := range readings(u, room[:0]) {
		dst = s.match(p.path, method, p.escaped, dst)
	}
	return dst
}

// match appends the sets of the patterns below s that match path, which begins with a slash and is not escaped or is read
// segment by segment.
func (s *segment) match(path, method string, escaped bool, dst []int) []int {
	dst = appendCovering(dst, s.below, method)
	if path == "" || path == "/" {
		return appendCovering(dst, s.exact, method)
	}
	name, rest := path[1:], ""
	if i := strings.IndexByte(name, '/'); i >= 0 {
		name, rest = name[:i], name[i:]
	}
	if escaped {
		name = unescape(name)
	}
	if child := s.literal[name]; child != nil {
		dst = child.match(rest, method, escaped, dst)
	}
	if s.wild != nil {
		dst = s.wild.match(rest, method, escaped, dst)
	}
	return dst
}

func appendCovering(dst []int, routes []route, method string) []int {
	for _, t := range routes {
		if t.covers(method) {
			dst = append(dst, t.set)
		}
	}
	return dst
}

// A reading is a way to read the path of a request. Routers differ: net/http cleans the path and then unescapes each
// segment; gin unescapes the path and then may clean it; chi and echo use the path unchanged unless a middleware cleans
// it.
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

// unescape returns name without its escapes, or unchanged if an escape is invalid.
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
