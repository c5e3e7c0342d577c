package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// maxPlaces bounds the paths that places remembers.
const maxPlaces = 16

// places are the paths, without a slash at the end, at which the page was served. Routers do not say where the page is
// mounted, but it gets only requests for that path and for paths below. So the page is not mounted below a path at
// which it was served.
type places struct {
	mu   sync.Mutex
	seen []string
}

// add remembers that the page was served at path.
func (p *places) add(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) < maxPlaces && !slices.Contains(p.seen, path) {
		p.seen = append(p.seen, path)
	}
}

// mayBe reports whether the page may be mounted at path, the path of r. A handler that is mounted at several paths may
// be at path if r.Pattern or http.StripPrefix says so.
func (p *places) mayBe(r *http.Request, path string) bool {
	if r.URL.Path == "" || r.URL.Path == strings.TrimSuffix(r.Pattern, "*") {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(p.seen, func(seen string) bool { return strings.HasPrefix(path, seen+"/") })
}

// split returns the path that the client has requested, escaped, up to its last slash and after it. A router or
// http.StripPrefix may have changed r.URL.
func split(r *http.Request) (dir, name string) {
	path := r.URL.EscapedPath()
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		path = u.EscapedPath()
	}
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}
