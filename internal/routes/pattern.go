package routes

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/spillgate/spillgate/internal/nearest"
)

// A Mistake says what is wrong with a pattern of a set.
type Mistake struct {
	Set  int
	Text string
}

// New returns an Index of sets of patterns, and all mistakes in them.
func New(sets [][]string) (*Index, []Mistake) {
	x := new(Index)
	checked := patternChecker{known: make(map[string]bool)}
	var mistakes []Mistake
	for i, patterns := range sets {
		if len(patterns) == 0 {
			x.everywhere = append(x.everywhere, i)
		}
		for _, text := range patterns {
			p, mistake := checked.parse(text)
			if mistake != "" {
				mistakes = append(mistakes, Mistake{i, mistake})
				continue
			}
			x.add(p, i)
		}
	}
	return x, mistakes
}

// A pattern is one of http.ServeMux.
type pattern struct {
	method, host string
	segments     []patternSegment
	multi        bool // it ends in a slash or in {rest...}
	slash        bool // it ends in {$}
}

type patternSegment struct {
	name string // unescaped; empty if wild
	wild bool
}

// String returns the same text for patterns that match the same requests.
func (p pattern) String() string {
	return fmt.Sprintf("%q %q %#v %v %v", p.method, p.host, p.segments, p.multi, p.slash)
}

func (x *Index) add(p pattern, set int) {
	tree := x.root(p.host)
	for _, s := range p.segments {
		tree = tree.child(s)
	}
	t := route{method: p.method, set: set}
	switch {
	case p.multi:
		t.end = below
	case p.slash:
		t.end = slash
	}
	tree.routes = append(tree.routes, t)
}

// root returns the tree of the patterns with a host, or of the patterns without a host. It adds the tree if it is
// missing.
func (x *Index) root(host string) *segment {
	if host == "" {
		if x.anyHost == nil {
			x.anyHost = new(segment)
		}
		return x.anyHost
	}
	if x.hosts == nil {
		x.hosts = make(map[string]*segment)
	}
	if x.hosts[host] == nil {
		x.hosts[host] = new(segment)
	}
	return x.hosts[host]
}

// child returns the child of s for a segment of a pattern, and adds it if it is missing.
func (s *segment) child(of patternSegment) *segment {
	if of.wild {
		if s.wild == nil {
			s.wild = new(segment)
		}
		return s.wild
	}
	if s.literal == nil {
		s.literal = make(map[string]*segment)
	}
	if s.literal[of.name] == nil {
		s.literal[of.name] = new(segment)
	}
	return s.literal[of.name]
}

// A patternChecker checks patterns, one by one and against each other, with an http.ServeMux.
type patternChecker struct {
	mux   http.ServeMux
	known map[string]bool // patterns that mux has
}

// parse returns the pattern in text, or the mistake in it.
func (c *patternChecker) parse(text string) (p pattern, mistake string) {
	method, rest := "", text
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		method, rest = text[:i], strings.TrimLeft(text[i:], " \t")
	}
	host, path, hasPath := strings.Cut(rest, "/")
	if mistake := misspelt(text, method, host, path, hasPath); mistake != "" {
		return pattern{}, mistake
	}
	p = newPattern(method, cleanHost(host), path)
	mux, same := &c.mux, p.String()
	if c.known[same] {
		mux = new(http.ServeMux) // a ServeMux does not accept two patterns that match the same requests
	}
	if mistake := register(mux, text[:len(text)-len(rest)]+p.host+rest[len(host):]); mistake != "" {
		return pattern{}, fmt.Sprintf("route %q: %s", text, mistake)
	}
	c.known[same] = true
	return p, ""
}

// newPattern splits path, which is without its first slash, into segments.
func newPattern(method, host, path string) pattern {
	p := pattern{method: method, host: host, multi: path == ""}
	for path != "" && !p.multi {
		var name string
		name, path, p.multi = strings.Cut(path, "/")
		p.multi = p.multi && path == ""
		switch {
		case name == "{$}":
			p.slash = true
		case strings.HasPrefix(name, "{") && strings.HasSuffix(name, "...}"):
			p.multi = true
		case strings.HasPrefix(name, "{"):
			p.segments = append(p.segments, patternSegment{wild: true})
		default:
			p.segments = append(p.segments, patternSegment{name: unescape(name)})
		}
	}
	return p
}

// register adds a pattern to mux, or returns mux's error.
func register(mux *http.ServeMux, text string) (mistake string) {
	defer func() {
		if v := recover(); v != nil {
			said := strings.ReplaceAll(fmt.Sprint(v), "\n", " ")
			mistake = withoutPlaces(said)
		}
	}()
	mux.Handle(text, http.NotFoundHandler())
	return ""
}

// withoutPlaces removes what says where a pattern was registered, such as " (registered at /x/main.go:7)".
func withoutPlaces(s string) string {
	before, rest, found := strings.Cut(s, " (registered at ")
	for i := 0; found && i < len(rest); i++ {
		if rest[i] != ':' {
			continue
		}
		line := rest[i+1:]
		if after := strings.TrimLeft(line, "0123456789"); len(after) < len(line) && strings.HasPrefix(after, ")") {
			return before + withoutPlaces(after[1:])
		}
	}
	return s
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// misspelt explains why http.ServeMux does not accept a pattern, or why no request can match it, and suggests a
// correction. It returns "" if the pattern is correct.
func misspelt(text, method, host, rest string, hasPath bool) string {
	upper := strings.ToUpper(method)
	mark := strings.IndexAny(rest, "?#")
	before := rest[:max(mark, 0)]
	switch {
	case text == "":
		return fmt.Sprintf("route %q is empty; want a pattern such as %q or %q", text, "POST /login", "/api/")
	case strings.ContainsAny(text, "\r\n"):
		return fmt.Sprintf("route %q has a line break; did you mean %q?", text, strings.Join(strings.Fields(text), " "))
	case strings.Contains(method, "/") && !hasPath:
		return fmt.Sprintf("route %q has a space in its path; did you mean %q?", text, strings.Join(strings.Fields(text), "%20"))
	case method != "" && !hasPath:
		return fmt.Sprintf("route %q has no path; did you mean %q?", text, method+" /"+host)
	case !hasPath:
		return fmt.Sprintf("route %q has no path; did you mean %q?", text, "/"+strings.TrimSuffix(host, "*"))
	case upper != method && slices.Contains(methods, upper):
		return fmt.Sprintf("route %q can never match: its method is not in upper case; did you mean %q?", text, upper+text[len(method):])
	case upper == "*" || upper == "ANY" || upper == "ALL":
		return fmt.Sprintf("route %q has no method of HTTP; a pattern without one is for all methods: did you mean %q?", text, host+"/"+rest)
	case strings.ContainsAny(method, "|,") && !strings.Contains(method, "/"), strings.ContainsAny(host, " \t"):
		first, _, _ := strings.Cut(strings.ReplaceAll(upper, ",", "|"), "|")
		host = host[strings.LastIndexAny(host, " \t")+1:]
		return fmt.Sprintf("route %q has several methods; write a pattern for each, such as %q", text, first+" "+host+"/"+rest)
	case slices.Contains(methods, host):
		return fmt.Sprintf("route %q has a method in place of a host; did you mean %q?", text, host+" /"+rest)
	case strings.Contains(rest, " /"), strings.Contains(rest, ",/"), strings.HasPrefix(method, "/"):
		slash := strings.Index(text, "/")
		return fmt.Sprintf("route %q has several patterns; write each by itself, such as %q", text, text[:slash+strings.IndexAny(text[slash:], ", \t")])
	case strings.HasSuffix(host, ":") && strings.HasPrefix(rest, "/"):
		return fmt.Sprintf("route %q can never match: it has a scheme; did you mean %q?", text, strings.Replace(text, host+"//", "", 1))
	case strings.ContainsFunc(host, inNoHost):
		return fmt.Sprintf("route %q has no valid host: %q may have ASCII letters, digits, dots and hyphens only; did you mean %q?", text, host, strings.TrimLeft(method+" /"+rest, " "))
	case mark >= 0 && strings.Count(before, "{") == strings.Count(before, "}"):
		what := map[byte]string{'?': "query", '#': "fragment"}[rest[mark]]
		return fmt.Sprintf("route %q has a %s, which is no part of a path; did you mean %q? A literal %c is %%%X", text, what, strings.TrimSuffix(text, rest)+before, rest[mark], rest[mark])
	case !isClean("/" + rest):
		return fmt.Sprintf("route %q can never match: its path is not clean; did you mean %q?", text, strings.TrimSuffix(text, "/"+rest)+cleaned("/"+rest))
	}
	if meant := nearest.Word(method, methods); meant != "" && meant != method {
		return fmt.Sprintf("route %q has no method of HTTP; did you mean %q?", text, meant+text[len(method):])
	}
	return otherSyntax(text, rest)
}

// cleaned returns the clean form of p.
func cleaned(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// otherSyntax returns a mistake if a pattern has the wildcards of other routers, which http.ServeMux reads literally.
func otherSyntax(text, rest string) string {
	segments := strings.Split(strings.ReplaceAll(rest, ".+", ".*"), "/")
	wild := false
	for i, s := range segments {
		switch {
		case len(s) > 1 && s[0] == ':', strings.HasPrefix(s, "{") && strings.Contains(s, ":"):
			name := s[1:]
			if end := strings.IndexFunc(name, isNoLetter); end > 0 {
				name = name[:end] // without an extension or an expression
			}
			segments[i], wild = "{"+name+"}", true
		case strings.HasPrefix(s, "{"):
		case strings.HasPrefix(s, "^"), strings.HasSuffix(s, "$"):
			segments[i], wild = strings.Trim(s, "^$"), true
		case strings.ContainsAny(s, `|<>[]\`):
			name := strings.Trim(s, "<>[]")
			if name == "" || strings.ContainsFunc(name, isNoLetter) {
				name = "name"
			}
			segments[i], wild = "{"+name+"}", true
		case !strings.Contains(s, "*"):
		case i < len(segments)-1:
			segments[i], wild = "{name}", true
		default:
			prefix, _, _ := strings.Cut(s, "*")
			segments[i], wild = strings.TrimRight(prefix, ".("), true
			if segments[i] != "" {
				segments[i] += "/"
			}
		}
	}
	if !wild {
		return ""
	}
	meant := strings.TrimSuffix(text, rest) + strings.Join(segments, "/")
	return fmt.Sprintf("route %q has a wildcard of another router; did you mean %q? A literal : is %%3A, a literal * is %%2A, and so on", text, meant)
}

func inNoHost(c rune) bool {
	return c > unicode.MaxASCII || isNoLetter(c) && !strings.ContainsRune(".-:[]", c)
}

func isNoLetter(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }
