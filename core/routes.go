package core

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// routes finds the rules of a request by their Routes, in one walk along its path. It never changes once it is made.
type routes struct {
	everywhere []int    // rules without Routes
	anyHost    *segment // of patterns without a host
	hosts      map[string]*segment
}

// A segment is a node of a tree of patterns. Its children are what may follow in a path.
type segment struct {
	literal map[string]*segment
	wild    *segment // {x}
	exact   []route  // patterns that end here: "/login", "/login/{$}"
	below   []route  // patterns for this path and all below it: "/api/", "/api/{rest...}"
}

// A route is a pattern without its path.
type route struct {
	method string // empty: any
	rule   int
}

func (t route) covers(method string) bool {
	return t.method == "" || t.method == method || t.method == http.MethodGet && method == http.MethodHead
}

// find appends to dst the indexes of the rules that apply to r, in order.
func (x *routes) find(r *http.Request, dst []int) []int {
	start := len(dst)
	dst = append(dst, x.everywhere...)
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
			dst = tree.findAll(r.URL, method, dst)
		}
	}
	slices.Sort(dst[start:])
	return dst[:start+len(slices.Compact(dst[start:]))]
}

// findAll appends the rules of the patterns that match u, in whatever way a router may read it.
func (s *segment) findAll(u *url.URL, method string, dst []int) []int {
	if u == nil {
		return s.find("/", method, false, dst)
	}
	if u.RawPath == "" && isClean(u.Path) {
		return s.find(u.Path, method, false, dst)
	}
	var room [4]reading
	for _, p := range readings(u, room[:0]) {
		dst = s.find(p.path, method, p.escaped, dst)
	}
	return dst
}

// find appends the rules of the patterns below s that match path, which begins with a slash and is not escaped or is read
// segment by segment.
func (s *segment) find(path, method string, escaped bool, dst []int) []int {
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
		dst = child.find(rest, method, escaped, dst)
	}
	if s.wild != nil {
		dst = s.wild.find(rest, method, escaped, dst)
	}
	return dst
}

func appendCovering(dst []int, routes []route, method string) []int {
	for _, t := range routes {
		if t.covers(method) {
			dst = append(dst, t.rule)
		}
	}
	return dst
}
