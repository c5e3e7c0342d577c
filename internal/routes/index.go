package routes

import (
	"cmp"
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
	routes  []route  // that end here
}

// A route is a pattern without its path.
type route struct {
	method string // empty: any
	set    int
	end    ending
}

// An ending says which rests of a path a route matches.
type ending uint8

const (
	here  ending = iota // none: "/login"
	slash               // a slash: "/login/{$}"
	below               // any: "/api/", "/api/{rest...}"
)

// matches reports whether t matches p, whose path is the rest.
func (t *route) matches(p *reading) bool {
	if t.method != "" && t.method != p.method && (t.method != http.MethodGet || p.method != http.MethodHead) {
		return false
	}
	switch t.end {
	case here:
		return p.path == "" || !p.exact && isSlashes(p.path)
	case slash: // http.ServeMux also routes "/%2F" to "/{$}"
		return p.path == "/" || !p.exact && (isSlashes(p.path) || p.escaped && isSlashes(unescape(p.path)))
	}
	return p.path != "" || !p.exact
}

// Match returns the indexes of the sets that match r, in order, in dst if there is room. The caller must not change them. An empty
// set matches every request. A set matches if one of its patterns matches one reading of the path.
func (x *Index) Match(r *http.Request, dst []int) []int {
	if x.anyHost == nil && len(x.hosts) == 0 {
		return x.everywhere
	}
	return x.match(r, dst)
}

func (x *Index) match(r *http.Request, dst []int) []int {
	dst = append(dst[:0], x.everywhere...)
	trees := [2]*segment{x.anyHost}
	if len(x.hosts) > 0 {
		trees[1] = x.hosts[cleanHost(r.Host)]
	}
	var room [8]reading
	all := readings(r, false, room[:0])
	for _, tree := range trees {
		for i := 0; i < len(all) && tree != nil; i++ {
			dst = tree.match(all[i], dst)
		}
	}
	slices.Sort(dst)
	return slices.Compact(dst)
}

// Covers reports whether every reading of r's path matches a pattern without a host, exactly as http.ServeMux matches a
// path that it does not clean: "/login" does not match "/login/". Use Covers to free requests: whichever reading a
// router chooses, it leads to a path that a pattern names. Covers never reports true for a path that is Ambiguous.
func (x *Index) Covers(r *http.Request) bool {
	if x.anyHost == nil || r.URL != nil && Ambiguous(r.URL.Path) {
		return false
	}
	var room [8]reading
	var found [4]int
	for _, p := range readings(r, true, room[:0]) {
		if len(x.anyHost.match(p, found[:0])) == 0 {
			return false
		}
	}
	return true
}

// Ambiguous reports whether servers behind a proxy may read a path, which is not escaped, in ways that readings does not
// foresee: "\\" as "/", "..;x" as "..", an escape that was escaped itself, or a control character as the end.
func Ambiguous(path string) bool {
	return strings.ContainsFunc(path, func(c rune) bool { return c == '\\' || c == ';' || c == '%' || c < ' ' || c == 0x7f })
}

// match appends the sets of the patterns below s that match p, whose path begins with a slash or is empty.
func (s *segment) match(p reading, dst []int) []int {
	for s != nil {
		for i := range s.routes {
			if t := &s.routes[i]; t.matches(&p) {
				dst = append(dst, t.set)
			}
		}
		if p.path == "" || p.path == "/" {
			break
		}
		name, rest := p.path[1:], ""
		if i := strings.IndexByte(name, '/'); i >= 0 {
			name, rest = name[:i], name[i:]
		}
		if p.escaped {
			name = unescape(name)
		}
		p.path = rest
		if s.wild != nil {
			dst = s.wild.match(p, dst)
		}
		s = s.literal[name]
	}
	return dst
}

// A reading is a way to read the method and the path of a request. Routers differ: net/http cleans the path and then
// unescapes each segment; gin unescapes the path and then may clean it; chi and echo use the path unchanged unless a
// middleware cleans it.
type reading struct {
	method, path string
	escaped      bool // to be unescaped segment by segment
	exact        bool // a slash at the end counts
}

// RouterKey is the key of the context value that knows what the router of a request routes it by, if the value is a
// Router.
type RouterKey struct{}

// A Router may route a request by another method or path than the request's own.
type Router interface {
	// RouteTarget returns the method and the path that the router routes r by, if it knows them. The path may be
	// escaped, and a slash at its end does not count. Empty strings mean the request's own.
	RouteTarget(r *http.Request) (method, path string)
}

// readings appends all readings of r to dst. Their paths begin with a slash. If exact is false, slashes at their end count
// only as empty segments, which wildcards of some routers match.
func readings(r *http.Request, exact bool, dst []reading) []reading {
	sent := r.URL
	if sent == nil {
		sent = new(url.URL)
	}
	method, own := "", "" // the router's
	if router, ok := r.Context().Value(RouterKey{}).(Router); ok {
		if method, own = router.RouteTarget(r); own != "" && !strings.HasSuffix(own, "//") && trimSlashes(own) == trimSlashes(sent.Path) {
			own = ""
		}
	}
	all := reading{method: cmp.Or(r.Method, http.MethodGet), exact: exact}
	if own == "" && sent.RawPath == "" && isClean(sent.Path) && (!exact || !strings.HasSuffix(sent.Path, "/")) {
		all.path = sent.Path
		dst = append(dst, all)
	} else {
		dst = all.appendForms(sent.Path, dst)
		connect := ""
		if all.method == http.MethodConnect && sent.Path != "" && sent.Path[0] != '/' { // left by http.StripPrefix
			connect = "/" + sent.EscapedPath()[1:] // http.ServeMux takes the first byte for a slash
		}
		for _, p := range [...]string{sent.RawPath, own, connect} {
			if p != "" {
				all.escaped = true
				dst = all.appendForms(p, dst)
				all.escaped = false
				dst = all.appendForms(p, dst)
			}
		}
	}
	if method == "" || method == all.method || method == http.MethodGet && all.method == http.MethodHead {
		return dst
	}
	for _, p := range dst {
		p.method = method
		dst = append(dst, p)
	}
	return dst
}

// appendForms appends readings of text that are like p: as it is, without slashes at its end if these count, and cleaned.
func (p reading) appendForms(text string, dst []reading) []reading {
	p.path = "/" + strings.TrimPrefix(text, "/")
	dst = append(dst, p)
	if p.exact && strings.HasSuffix(text, "/") {
		p.path = trimSlashes(text)
		dst = append(dst, p)
	}
	p.path = path.Clean("/" + text)
	return append(dst, p)
}

// isSlashes reports whether p has no other characters than slashes.
func isSlashes(p string) bool { return strings.TrimLeft(p, "/") == "" }

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
	if !strings.HasPrefix(p, "/") || strings.Contains(p, "//") {
		return false
	}
	for rest := p; ; {
		i := strings.Index(rest, "/.")
		if i < 0 {
			return true
		}
		if rest = rest[i+1:]; isDots(rest) {
			return false
		}
	}
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
