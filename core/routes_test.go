package core_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"pgregory.net/rapid"
)

// routed returns a rule for the requests that patterns name. It is named after them.
func routed(patterns ...string) core.Rule {
	return core.Rule{Name: strings.Join(patterns, " "), Key: constKey, Limits: []core.Limit{core.PerHour(1_000_000)}, Routes: patterns}
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

// applied returns the names of the rules of l that apply to r.
func applied(t testing.TB, l *core.Limiter, r *http.Request) (names []string) {
	t.Helper()
	d, err := l.Peek(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range d.Results {
		names = append(names, res.Rule)
	}
	return names
}

func TestRoutes(t *testing.T) {
	tests := []struct {
		pattern  string
		match    []string
		mismatch []string
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
		{"/api/{$}", []string{"GET /api/", "GET /api"}, []string{"GET /api/v1"}},
		{"/api/{rest...}", []string{"GET /api/", "GET /api", "GET /api/v1/x"}, []string{"GET /apis"}},
		{"/users/{id}", []string{"GET /users/7", "GET /users/7/", "GET /users/a%2Fb", "GET /users/..", "GET /users/%2F"}, []string{"GET /users", "GET /users/", "GET /users/7/posts"}},
		{"POST /v1/{tenant}/login", []string{"POST /v1/acme/login", "POST /v1//login", "POST /v1/../login", "POST /v1/./login", "POST /v1/%2E%2E/login", "POST /v1/a%2Fb/login", "POST /x/../v1/a%2Fb/login", "POST /v1//login//"}, []string{"POST /v1/login", "POST /v1/a/b/login"}},
		{"/v1/{tenant}/{user}/x", []string{"GET /v1/a/b/x", "GET /v1//%2F%2F/x"}, []string{"GET /v1/a/x"}},
		{"/{x}/y", []string{"GET /a/y", "GET //y"}, []string{"GET /y", "GET /a/b/y"}},
		{"/a%2Fb/c", []string{"GET /a%2Fb/c", "GET /a%2fb/c"}, []string{"GET /a/b/c"}},
		{"/100%25", []string{"GET /100%25"}, []string{"GET /100%2525"}},
		{"/%zz", nil, []string{"GET /a"}},
		{"example.com/a", []string{"GET /a", "GET http://EXAMPLE.com/a", "GET http://example.com:8080/a", "GET http://example.com./a"}, []string{"GET http://example.org/a"}},
		{"Example.COM/a", []string{"GET /a"}, nil},
		{"[::1]/a", []string{"GET http://[::1]/a", "GET http://[::1]:80/a"}, []string{"GET /a"}},
	}
	for _, tt := range tests {
		l := core.Must(core.New([]core.Rule{routed(tt.pattern)}))
		for _, line := range tt.match {
			if len(applied(t, l, received(t, line))) != 1 {
				t.Errorf("%s does not apply to %s", tt.pattern, line)
			}
		}
		for _, line := range tt.mismatch {
			if len(applied(t, l, received(t, line))) != 0 {
				t.Errorf("%s applies to %s", tt.pattern, line)
			}
		}
	}
}

func TestRoutesOfRequestsMadeByHand(t *testing.T) {
	l := core.Must(core.New([]core.Rule{routed("GET /{$}", "GET /login")}))
	for _, r := range []*http.Request{{}, {Method: http.MethodGet}, {URL: &url.URL{Path: "login"}}} {
		if len(applied(t, l, r)) != 1 {
			t.Errorf("no pattern applies to %+v", r)
		}
	}
}

func TestAllRulesThatMatchApplyInOrder(t *testing.T) {
	never := routed("/login")
	never.Name, never.Match = "never", func(*http.Request) bool { return false }
	everywhere := routed()
	everywhere.Name = "everywhere"
	l := core.Must(core.New([]core.Rule{
		routed("POST /login"), everywhere, never, routed("/"), routed("GET /login"), routed("/{page}"), routed("/{other}"),
		routed("example.com/"), routed("/login", "/logout"), routed("POST /login", "POST /login/"),
	}))
	tests := []struct {
		line string
		want []string
	}{
		{"POST /login", []string{"POST /login", "everywhere", "/", "/{page}", "/{other}", "example.com/", "/login /logout", "POST /login POST /login/"}},
		{"GET /logout", []string{"everywhere", "/", "/{page}", "/{other}", "example.com/", "/login /logout"}},
		{"GET http://example.org/a/b", []string{"everywhere", "/"}},
	}
	for _, tt := range tests {
		if got := applied(t, l, received(t, tt.line)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.line, got, tt.want)
		}
	}
}

func TestRouteMistakes(t *testing.T) {
	tests := []struct {
		why   string
		rules []core.Rule
		want  string
	}{
		{"empty", []core.Rule{routed("")}, `rule "default": route "" is empty`},
		{"no slash", []core.Rule{routed("POST login")}, `rule "POST login": route "POST login" has no path; did you mean "POST /login"?`},
		{"a bad wildcard", []core.Rule{routed("/a/{x-y}")}, `bad wildcard name "x-y"`},
		{"a wildcard twice", []core.Rule{routed("/{x}/{x}")}, `duplicate wildcard name "x"`},
		{"bad, and like a good one", []core.Rule{routed("/a/{x}"), routed("/a/{y-}")}, `bad wildcard name "y-"`},
		{"a bad method", []core.Rule{routed("PO/ST /a")}, `route "PO/ST /a" has no method of HTTP; did you mean "POST /a"?`},
		{"a method in lower case", []core.Rule{routed("post /a")}, `route "post /a" can never match: its method is not in upper case`},
		{"an empty segment", []core.Rule{routed("/a//b")}, `route "/a//b" can never match: its path is not clean`},
		{"nothing but slashes", []core.Rule{routed("//")}, `route "//" can never match: its path is not clean`},
		{"dots", []core.Rule{routed("/a/../b")}, `route "/a/../b" can never match: its path is not clean`},
		{"patterns that cross", []core.Rule{routed("/a/{x}"), routed("/{y}/b")}, `rule "/{y}/b": route "/{y}/b": pattern "/{y}/b" conflicts with pattern "/a/{x}": /{y}/b and /a/{x} both match some paths, like "/a/b".`},
		{"also of one rule", []core.Rule{routed("POST /", "/login")}, `pattern "/login" conflicts with pattern "POST /"`},
		{"whatever the case of the host", []core.Rule{routed("h.example/a/{x}", "H.example/{y}/b")}, `conflicts with pattern`},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			err := newErr(tt.rules...)
			wantError(t, err, core.ErrInvalid, tt.want)
			if strings.Contains(err.Error(), "registered at") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line without places in this module", err)
			}
		})
	}
}

func TestAllRouteMistakesAtOnce(t *testing.T) {
	err := newErr(routed("x", "/a/../b"), routed("/{"), named("n"))
	if got := strings.Count(err.Error(), "\n") + 1; got != 3 {
		t.Errorf("got %d mistakes, want 3:\n%v", got, err)
	}
}

// http.ServeMux is the reference: a pattern applies to a clean path exactly if a mux with that pattern alone routes it there.
func TestRoutesAgreeWithServeMux(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "c", "{x}", "{y...}", "{$}", "", "a%2Fb", "%61"})
	sent := rapid.SampledFrom([]string{"a", "b", "c", "%61", "a%2Fb", "%7Bx%7D", "..a"})
	methods := rapid.SampledFrom([]string{"", "GET ", "HEAD ", "POST "})
	rapid.Check(t, func(rt *rapid.T) {
		pattern := methods.Draw(rt, "method") + "/" + strings.Join(rapid.SliceOfN(names, 1, 3).Draw(rt, "pattern"), "/")
		l, err := core.New([]core.Rule{routed(pattern)})
		if err != nil {
			rt.Skip("not a pattern")
		}
		mux := http.NewServeMux()
		mux.Handle(pattern, http.NotFoundHandler())
		r := received(t, rapid.SampledFrom([]string{"GET", "HEAD", "POST"}).Draw(rt, "with")+" /"+strings.Join(rapid.SliceOfN(sent, 1, 4).Draw(rt, "path"), "/"))
		_, hit := mux.Handler(r)
		if strings.Contains(r.URL.RawPath, "%2F") && hit == "" {
			rt.Skip("another router may route it")
		}
		if got := len(applied(t, l, r)) == 1; got != (hit != "") {
			rt.Fatalf("%s applies to %s %s: got %v, and ServeMux says %q", pattern, r.Method, r.URL, got, hit)
		}
	})
}

func BenchmarkRoutes(b *testing.B) {
	rules := make([]core.Rule, 0, 1000)
	for i := range 1000 {
		rules = append(rules, routed(fmt.Sprintf("POST /v1/service%d/{tenant}/login", i)))
	}
	for _, n := range []int{1, 1000} {
		for _, path := range []string{"/v1/service0/acme/login", "/other"} {
			b.Run(fmt.Sprintf("%d rules%s", n, path), func(b *testing.B) {
				l := core.Must(core.New(rules[:n]))
				r := received(b, "POST "+path)
				b.ReportAllocs()
				for b.Loop() {
					_, _ = l.Check(r)
				}
			})
		}
	}
}
