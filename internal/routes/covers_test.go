package routes

import (
	"context"
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
)

// A target is a Router that routes all requests by one method and path.
type target [2]string

func (t target) RouteTarget(*http.Request) (method, path string) { return t[0], t[1] }

func routedBy(r *http.Request, method, path string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), RouterKey{}, target{method, path}))
}

func TestMatchReadsWhatTheRouterReads(t *testing.T) {
	x := index(t, []string{"POST /login"}, []string{"GET /page"}, []string{"/users/{id}"}, []string{"/{$}"})
	for _, tt := range []struct {
		line, method, path string
		want               []int
	}{
		{"POST /x", "", "/login", []int{0}},
		{"POST /x", "", "/login/", []int{0}},
		{"POST /x", "", "//login", []int{0}},
		{"POST /x", "", "/%6Cogin", []int{0}},
		{"GET /x", "POST", "/login", []int{0}},
		{"GET /login", "POST", "", []int{0}},
		{"POST /login", "GET", "/page", []int{0, 1}},
		{"HEAD /page", "GET", "", []int{1}},
		{"POST /x", "", "/users/a%2Fb", []int{2}},
		{"POST /x", "", "/", []int{3}},
		{"POST /users", "", "/users//", []int{2}},
		{"POST /x", "", "", nil},
	} {
		expect.Elements(t, x.Match(routedBy(received(t, tt.line), tt.method, tt.path), nil), tt.want, "%s, routed by %s %s", tt.line, tt.method, tt.path)
	}
}

func TestCovers(t *testing.T) {
	x := index(t, []string{"/healthz", "GET /ready", "/static/", "/docs/{$}", "/docs", "/a%20b", "/users/{id}/health", "h.example/"})
	for line, want := range map[string]bool{
		"GET /healthz": true, "POST /healthz": true, "GET /healthz?x=/../y": true, "GET /health%7A": false, "GET /healthz/": false, "GET //healthz": false,
		"GET /x/../healthz": false, "GET /healthz/.": false, "GET /healthz/..": false, "GET /healthz;x": false, "GET /healthz%00": false,
		"GET /ready": true, "HEAD /ready": true, "POST /ready": false,
		"GET /static/x": true, "GET /static/x/y": true, "GET /static": false, "GET /static/": false, "GET /static/../x": false, "GET /static/../static/x": true,
		"GET /static/..%2Fx": false, "GET /static/%2E%2E/x": false, "GET /static/a%2Fb": true, "GET /static/%61": true, "GET /static/%252e%252e/x": false,
		"GET /static/..;/x": false, "GET /static/..%5Cx": false, "GET /static/./x": true,
		"GET /docs": true, "GET /docs/": true, "GET /docs/x": false, "GET /a%20b": true,
		"GET /users/7/health": true, "GET /users//health": false, "GET /users/a%2Fb/health": false, "GET /users/../health": false,
		"GET http://h.example/x": false, "GET /": false, "OPTIONS *": false,
	} {
		expect.Equal(t, x.Covers(received(t, line)), want, "%s", line)
	}
	for _, tt := range []struct {
		line, method, path string
		want               bool
	}{
		{"GET /healthz", "", "/healthz", true},
		{"GET /healthz", "GET", "/static/x", true},
		{"GET /healthz", "", "/login", false},
		{"GET /ready", "POST", "", false},
		{"HEAD /ready", "GET", "/ready", true},
	} {
		expect.Equal(t, x.Covers(routedBy(received(t, tt.line), tt.method, tt.path)), tt.want, "%s, routed by %s %s", tt.line, tt.method, tt.path)
	}
	expect.True(t, !index(t, []string{"h.example/"}).Covers(received(t, "GET http://h.example/")) && index(t, []string{"/"}).Covers(&http.Request{}),
		"a pattern with a host covers a request, or / does not cover one without a URL")
}
