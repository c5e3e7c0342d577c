package core

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// newRoutes indexes the Routes of rules, or returns nil if none has any. Its errors are all mistakes in them.
func newRoutes(rules []Rule) (*routes, []error) {
	x := &routes{anyHost: new(segment), hosts: make(map[string]*segment)}
	checked := patternChecker{known: make(map[string]bool)}
	var errs []error
	for i := range rules {
		r := &rules[i]
		if len(r.Routes) == 0 {
			x.everywhere = append(x.everywhere, i)
		}
		for _, text := range r.Routes {
			p, err := checked.parse(text)
			if err != nil {
				errs = append(errs, within(r.place(), err))
				continue
			}
			x.add(p, i)
		}
	}
	if len(x.everywhere) == len(rules) {
		return nil, nil
	}
	return x, errs
}

// A pattern is one of http.ServeMux.
type pattern struct {
	method, host string
	segments     []patternSegment
	multi        bool // it ends in a slash or in {rest...}
}

type patternSegment struct {
	name string // unescaped; empty if wild
	wild bool
}

// String returns the same text for patterns that match the same requests.
func (p pattern) String() string {
	return fmt.Sprintf("%q %q %#v %v", p.method, p.host, p.segments, p.multi)
}

func (x *routes) add(p pattern, rule int) {
	tree := x.anyHost
	if p.host != "" {
		if x.hosts[p.host] == nil {
			x.hosts[p.host] = new(segment)
		}
		tree = x.hosts[p.host]
	}
	for _, s := range p.segments {
		tree = tree.child(s)
	}
	t := route{p.method, rule}
	if p.multi {
		tree.below = append(tree.below, t)
	} else {
		tree.exact = append(tree.exact, t)
	}
}

// child returns the child of s for a segment of a pattern, which it makes if there is none.
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

// A patternChecker has http.ServeMux check patterns one by one and against each other.
type patternChecker struct {
	mux   http.ServeMux
	known map[string]bool // patterns that mux has
}

// parse returns the pattern that text is, or an error that says what is wrong with it.
func (c *patternChecker) parse(text string) (pattern, error) {
	method, rest := "", text
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		method, rest = text[:i], strings.TrimLeft(text[i:], " \t")
	}
	host, path, hasPath := strings.Cut(rest, "/")
	if err := misspelt(text, method, host, path, hasPath); err != nil {
		return pattern{}, err
	}
	p := newPattern(method, cleanHost(host), path)
	mux, same := &c.mux, p.String()
	if c.known[same] {
		mux = new(http.ServeMux) // does not take patterns that match the same requests
	}
	if err := register(mux, strings.Replace(text, host, p.host, 1)); err != nil {
		return pattern{}, within(fmt.Sprintf("route %q", text), err)
	}
	c.known[same] = true
	return p, nil
}

// newPattern takes path apart, which lacks its first slash.
func newPattern(method, host, path string) pattern {
	p := pattern{method: method, host: host, multi: path == ""}
	for path != "" && !p.multi {
		var name string
		name, path, p.multi = strings.Cut(path, "/")
		p.multi = p.multi && path == ""
		switch {
		case name == "{$}":
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

// register adds a pattern to mux, or returns what mux says against it.
func register(mux *http.ServeMux, text string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			said := strings.ReplaceAll(fmt.Sprint(v), "\n", " ")
			err = invalid("%s", registeredAt.ReplaceAllString(said, ""))
		}
	}()
	mux.Handle(text, http.NotFoundHandler())
	return nil
}

var registeredAt = regexp.MustCompile(` \(registered at .*?:\d+\)`)
