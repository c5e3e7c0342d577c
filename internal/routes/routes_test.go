package routes

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// index returns an Index of sets of patterns, which must be valid.
func index(t testing.TB, sets ...[]string) *Index {
	t.Helper()
	x, mistakes := New(sets)
	must.True(t, len(mistakes) <= 0, "%v", mistakes)
	return x
}

// received returns the request that a server reads from the line "METHOD TARGET", sent to example.com.
func received(t testing.TB, line string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: example.com\r\n\r\n")))
	if err != nil {
		t.Skipf("no server accepts %q: %v", line, err)
	}
	return r
}

func TestRoutes(t *testing.T) {
	for _, tt := range []struct {
		pattern         string
		match, mismatch []string
	}{
		{"POST /login", []string{
			"POST /login", "POST //login", "POST /login/", "POST /login//", "POST /x/../login", "POST /./login", "POST /../login",
			"POST /%6Cogin", "POST /%6c%6f%67%69%6e", "POST /%2Flogin", "POST /x%2F..%2Flogin", "POST /%2e/login", "POST /x/%2E%2E/login",
			"POST /login%2F", "POST /login?next=/", "POST http://example.com/login", "POST http://other.example/login",
		}, []string{"GET /login", "HEAD /login", "PUT /login", "POST /", "POST /logins", "POST /login/x", "POST /LOGIN", "post /login", "POST /x%2Flogin"}},
		{"GET /a", []string{"GET /a", "HEAD /a"}, []string{"POST /a", "OPTIONS /a"}},
		{"HEAD /a", []string{"HEAD /a"}, []string{"GET /a"}},
		{"CONNECT /a", []string{"CONNECT /a", "CONNECT /a/"}, []string{"GET /a"}},
		{"/a", []string{"GET /a", "POST /a", "CUSTOM /a", "OPTIONS /a"}, []string{"GET /"}},
		{"/", []string{"GET /", "GET /a/b", "OPTIONS *", "CONNECT example.com:443", "GET http://example.com"}, nil},
		{"/{$}", []string{"GET /", "GET //", "GET /.", "GET /a/..", "GET http://example.com", "CONNECT example.com:443"}, []string{"GET /a", "OPTIONS *"}},
		{"/api/", []string{"GET /api/", "GET /api", "GET /api/v1/x", "GET /x/../api/y", "GET /api%2Fy"}, []string{"GET /apis", "GET /"}},
		{"/api/{$}", []string{"GET /api/", "GET /api", "GET /api/%2F"}, []string{"GET /api/v1"}},
		{"/users/{id}/{$}", []string{"GET /users/7/", "GET /users/a%2Fb/%2F"}, []string{"GET /users/7/x", "GET /users/a%2Fb/%2Fx"}},
		{"/api/{rest...}", []string{"GET /api/", "GET /api", "GET /api/v1/x"}, []string{"GET /apis"}},
		{"/users/{id}", []string{"GET /users//", "GET /users//%2F", "GET /users/7", "GET /users/7/", "GET /users/a%2Fb", "GET /users/..", "GET /users/%2F"}, []string{"GET /users", "GET /users/", "GET /users/7/posts"}},
		{"POST /v1/{tenant}/login", []string{"POST /v1/acme/login", "POST /v1//login", "POST /v1/../login", "POST /v1/./login", "POST /v1/%2E%2E/login", "POST /v1/a%2Fb/login", "POST /x/../v1/a%2Fb/login", "POST /v1//login//"}, []string{"POST /v1/login", "POST /v1/a/b/login"}},
		{"/v1/{tenant}/{user}/x", []string{"GET /v1/a/b/x", "GET /v1//%2F%2F/x"}, []string{"GET /v1/a/x"}},
		{"/{x}/y", []string{"GET /a/y", "GET //y"}, []string{"GET /y", "GET /a/b/y"}},
		{"/a%2Fb/c", []string{"GET /a%2Fb/c", "GET /a%2fb/c"}, []string{"GET /a/b/c"}},
		{"/100%25", []string{"GET /100%25"}, []string{"GET /100%2525"}},
		{"/%zz", nil, []string{"GET /a"}},
		{"example.com/a", []string{"GET /a", "GET http://EXAMPLE.com/a", "GET http://example.com:8080/a", "GET http://example.com./a"}, []string{"GET http://example.org/a"}},
		{"Example.COM/a", []string{"GET /a"}, nil},
		{"[::1]/a", []string{"GET http://[::1]/a", "GET http://[::1]:80/a"}, []string{"GET /a"}},
	} {
		x := index(t, []string{tt.pattern})
		for _, line := range tt.match {
			expect.Equal(t, len(x.Match(received(t, line), nil)), 1, "%s does not apply to %s", tt.pattern, line)
		}
		for _, line := range tt.mismatch {
			expect.Equal(t, len(x.Match(received(t, line), nil)), 0, "%s applies to %s", tt.pattern, line)
		}
	}
}

func TestRequestsThatNoServerReceived(t *testing.T) {
	x := index(t, []string{"GET /{$}", "GET /login", "CONNECT /login", "CONNECT /41"})
	for _, r := range []*http.Request{
		{}, {Method: http.MethodGet}, {URL: &url.URL{Path: "login"}},
		{Method: http.MethodConnect, URL: &url.URL{Path: "xlogin"}}, {Method: http.MethodConnect, URL: &url.URL{Path: "A", RawPath: "%41"}},
	} {
		expect.Equal(t, len(x.Match(r, nil)), 1, "no pattern applies to %+v", r)
	}
}

func TestAllMatchingSetsInOrder(t *testing.T) {
	x := index(t, []string{"POST /login"}, nil, []string{"/"}, []string{"GET /login"}, []string{"/{page}"}, []string{"/{other}"},
		[]string{"example.com/"}, []string{"/login", "/logout"}, []string{"POST /login", "POST /login/"})
	for line, want := range map[string][]int{
		"POST /login":                {0, 1, 2, 4, 5, 6, 7, 8},
		"GET /logout":                {1, 2, 4, 5, 6, 7},
		"GET http://example.org/a/b": {1, 2},
	} {
		expect.Elements(t, x.Match(received(t, line), []int{7}), want, "%s", line)
	}
	expect.Elements(t, index(t, nil, nil).Match(received(t, "GET /"), nil), []int{0, 1}, "without patterns (both sets)")
	expect.Elements(t, index(t, []string{"example.com/"}, []string{"h.example/"}).Match(received(t, "GET /"), nil), []int{0}, "of two hosts (the first)")
}

func TestRouteMistakes(t *testing.T) {
	for _, tt := range []struct {
		why  string
		sets [][]string
		want string
	}{
		{"empty", [][]string{{""}}, `route "" is empty`},
		{"no slash", [][]string{{"POST login"}}, `route "POST login" has no path; did you mean "POST /login"?`},
		{"a bad wildcard", [][]string{{"/a/{x-y}"}}, `bad wildcard name "x-y"`},
		{"a wildcard twice", [][]string{{"/{x}/{x}"}}, `duplicate wildcard name "x"`},
		{"bad, and like a good one", [][]string{{"/a/{x}"}, {"/a/{y-}"}}, `bad wildcard name "y-"`},
		{"a parameter with an extension", [][]string{{"/a/:id.json"}}, `did you mean "/a/{id}"?`},
		{"a parameter with an expression", [][]string{{"GET /a/{id:[0-9]+}/b"}}, `wildcard of another router; did you mean "GET /a/{id}/b"?`},
		{"a wildcard in the middle", [][]string{{"/a/*/b"}}, `wildcard of another router; did you mean "/a/{name}/b"?`},
		{"a prefix with a wildcard", [][]string{{"GET h.example/a/v1*"}}, `did you mean "GET h.example/a/v1/"?`},
		{"an expression at the end", [][]string{{"/a/.*"}}, `did you mean "/a/"?`},
		{"a wildcard alone", [][]string{{"*"}}, `route "*" has no path; did you mean "/"?`},
		{"a bad method", [][]string{{"PO/ST /a"}}, `route "PO/ST /a" has no method of HTTP; did you mean "POST /a"?`},
		{"a method in lower case", [][]string{{"post /a"}}, `route "post /a" can never match: its method is not in upper case`},
		{"no space behind the method", [][]string{{"POST/a/b"}}, `route "POST/a/b" has a method in place of a host; did you mean "POST /a/b"?`},
		{"any method", [][]string{{"ANY h.example/a"}}, `is for all methods: did you mean "h.example/a"?`},
		{"several methods", [][]string{{"get|post /a"}}, `several methods; write a pattern for each, such as "GET /a"`},
		{"a list of methods", [][]string{{"get, POST h.example/a"}}, `several methods; write a pattern for each, such as "GET h.example/a"`},
		{"methods and no comma", [][]string{{"GET POST /a"}}, `several methods; write a pattern for each, such as "GET /a"`},
		{"a list of patterns", [][]string{{"GET /a, POST /b"}}, `several patterns; write each by itself, such as "GET /a"`},
		{"a list of paths", [][]string{{"/a, /b"}}, `several patterns; write each by itself, such as "/a"`},
		{"all subdomains", [][]string{{"GET *.example.com/a"}}, `no valid host: "*.example.com" may have ASCII letters, digits, dots and hyphens only; did you mean "GET /a"?`},
		{"an expression from the start", [][]string{{"^/a"}}, `no valid host: "^" may have`},
		{"an expression to the end", [][]string{{"/^a/b$"}}, `did you mean "/a/b"?`},
		{"alternatives", [][]string{{"/(a|b)/c"}}, `did you mean "/{name}/c"?`},
		{"any text in groups", [][]string{{"/a/(.+)/b/(.*)"}}, `did you mean "/a/{name}/b/"?`},
		{"a parameter in other brackets", [][]string{{"/a/<id>/[name]"}}, `did you mean "/a/{id}/{name}"?`},
		{"a fragment", [][]string{{"/#/a"}}, `has a fragment, which is no part of a path; did you mean "/"? A literal # is %23`},
		{"a line break", [][]string{{"POST\n/a\n"}}, `route "POST\n/a\n" has a line break; did you mean "POST /a"?`},
		{"a query", [][]string{{"GET /a/{x}?b={c}"}}, `has a query, which is no part of a path; did you mean "GET /a/{x}"? A literal ? is %3F`},
		{"an optional parameter", [][]string{{"/a/{x?}"}}, `bad wildcard name "x?"`},
		{"an empty segment", [][]string{{"/a//b"}}, `route "/a//b" can never match: its path is not clean`},
		{"nothing but slashes", [][]string{{"//"}}, `route "//" can never match: its path is not clean`},
		{"dots", [][]string{{"/a/../b"}}, `route "/a/../b" can never match: its path is not clean`},
		{"patterns that cross", [][]string{{"/a/{x}"}, {"/{y}/b"}}, `route "/{y}/b": pattern "/{y}/b" conflicts with pattern "/a/{x}": /{y}/b and /a/{x} both match some paths, like "/a/b".`},
		{"also of one rule", [][]string{{"POST /", "/login"}}, `pattern "/login" conflicts with pattern "POST /"`},
		{"whatever the case of the host", [][]string{{"h.example/a/{x}", "H.example/{y}/b"}}, `conflicts with pattern`},
		{"whatever the method", [][]string{{"GET E/a/{x}", "GET e/{y}/b"}}, `"GET e/{y}/b" conflicts with pattern "GET e/a/{x}"`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			_, mistakes := New(tt.sets)
			must.True(t, len(mistakes) == 1 && mistakes[0].Set == len(tt.sets)-1 && strings.Contains(mistakes[0].Text, tt.want),
				"got %v, want one of the last set that says %s", mistakes, tt.want)
			if text := mistakes[0].Text; strings.Contains(text, "registered at") || strings.Contains(text, "\n") {
				t.Errorf("got %q, want one line without places in this module", text)
			}
		})
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	_, mistakes := New([][]string{{"x", "/a/../b"}, {"/{"}, nil})
	expect.Equal(t, len(mistakes), 3, "%v mistakes", mistakes)
}

// http.ServeMux is the reference: a pattern applies to a clean path if and only if a mux with only that pattern routes the path.
func TestRoutesAgreeWithServeMux(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "c", "{x}", "{y...}", "{$}", "", "a%2Fb", "%61"})
	sent := rapid.SampledFrom([]string{"a", "b", "c", "%61", "a%2Fb", "%7Bx%7D", "..a"})
	methods := rapid.SampledFrom([]string{"", "GET ", "HEAD ", "POST "})
	rapid.Check(t, func(rt *rapid.T) {
		pattern := methods.Draw(rt, "method") + "/" + strings.Join(rapid.SliceOfN(names, 1, 3).Draw(rt, "pattern"), "/")
		x, mistakes := New([][]string{{pattern}})
		if len(mistakes) > 0 {
			rt.Skip("not a pattern")
		}
		mux := http.NewServeMux()
		mux.Handle(pattern, http.NotFoundHandler())
		r := received(t, rapid.SampledFrom([]string{"GET", "HEAD", "POST"}).Draw(rt, "with")+" /"+strings.Join(rapid.SliceOfN(sent, 1, 4).Draw(rt, "path"), "/"))
		_, hit := mux.Handler(r)
		if strings.Contains(r.URL.RawPath, "%2F") && hit == "" {
			rt.Skip("another router may route it")
		}
		must.Equal(rt, len(x.Match(r, nil)) == 1, hit != "", "%s applies to %s %s, and ServeMux says %q", pattern, r.Method, r.URL, hit)
	})
}
