package route

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// Find returns the pattern of the route that will serve u, for a limiter in front of the router. lookup returns the
// pattern that the router finds for a URL, or "".
//
// A middleware behind the limiter may still clean the path, unescape it, or strip or add a slash at its end. So if the
// path has empty segments, dots, a slash at its end or escapes, Find also looks up the cleaned and the unescaped forms,
// and a path that nothing cleans counts like the clean path. If the forms lead to two routes, Find cannot know which of
// them will serve u, and returns an error that wraps core.ErrBadKey, because the client chose the path. It ignores escaped slashes, because clients send them in parameters.
func Find(u *url.URL, lookup func(*url.URL) string) (pattern string, err error) {
	if isClean(u.Path) && (u.RawPath == "" || hasEscapedSlash(u.RawPath)) {
		if pattern = lookup(u); pattern != "" {
			return pattern, nil
		}
	}
	for _, p := range [...]string{u.Path, u.RawPath} {
		if p == "" {
			continue
		}
		for _, reading := range [...]string{cmp.Or(strings.TrimRight(p, "/"), "/"), path.Clean("/" + p)} {
			switch found := lookup(&url.URL{Path: reading}); found {
			case "", pattern:
			default:
				if pattern != "" {
					return "", fmt.Errorf("%w: the path matches route %q or, if it is read in another way, %q; "+
						"mount the limiter behind the middleware that cleans the path", core.ErrBadKey, pattern, found)
				}
				pattern = found
			}
		}
	}
	if pattern == "" {
		pattern = lookup(u)
	}
	if pattern == "" {
		pattern = lookup(&url.URL{Path: u.Path + "/"})
	}
	return pattern, nil
}

func hasEscapedSlash(p string) bool { return strings.Contains(p, "%2F") || strings.Contains(p, "%2f") }

// isClean reports whether p has no empty segment, no "." or ".." and no slash at its end.
func isClean(p string) bool { return path.Clean(p) == p }
