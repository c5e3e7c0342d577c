package core

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/internal/nearest"
)

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// misspelt says why a pattern is not one of http.ServeMux, or is one that no request of a client can match, and what
// may be meant.
func misspelt(text, method, host, rest string, hasPath bool) error {
	upper := strings.ToUpper(method)
	switch {
	case text == "":
		return invalid("route %q is empty; want a pattern such as %q or %q", text, "POST /login", "/api/")
	case strings.Contains(method, "/") && !hasPath:
		return invalid("route %q has a space in its path; did you mean %q?", text, strings.Join(strings.Fields(text), "%20"))
	case method != "" && !hasPath:
		return invalid("route %q has no path; did you mean %q?", text, method+" /"+host)
	case !hasPath:
		return invalid("route %q has no path; did you mean %q?", text, "/"+host)
	case upper != method && slices.Contains(methods, upper):
		return invalid("route %q can never match: its method is not in upper case; did you mean %q?", text, upper+text[len(method):])
	case strings.HasSuffix(host, ":") && strings.HasPrefix(rest, "/"):
		return invalid("route %q can never match: it has a scheme; did you mean %q?", text, strings.Replace(text, host+"//", "", 1))
	case !isClean("/" + rest):
		return invalid("route %q can never match: its path is not clean; did you mean %q?", text, strings.TrimSuffix(text, "/"+rest)+cleaned("/"+rest))
	}
	if meant := nearest.Word(method, methods); meant != "" && meant != method {
		return invalid("route %q has no method of HTTP; did you mean %q?", text, meant+text[len(method):])
	}
	return otherSyntax(text, rest)
}

// cleaned returns p without what makes it unclean.
func cleaned(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// otherSyntax refuses the wildcards of other routers, which http.ServeMux takes literally.
func otherSyntax(text, rest string) error {
	segments := strings.Split(rest, "/")
	wild := false
	for i, s := range segments {
		switch {
		case len(s) > 1 && s[0] == ':':
			segments[i], wild = "{"+s[1:]+"}", true
		case len(s) > 0 && s[0] == '*' && i == len(segments)-1:
			segments[i], wild = "", true
		}
	}
	if !wild {
		return nil
	}
	meant := strings.TrimSuffix(text, rest) + strings.Join(segments, "/")
	return invalid("route %q has a wildcard of another router; did you mean %q? A literal : is %%3A, a literal * is %%2A", text, meant)
}
