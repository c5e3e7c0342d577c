package keyfunc

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

func TestMethod(t *testing.T) {
	for method, want := range map[string]string{
		"": "GET", "GET": "GET", "HEAD": "GET", "POST": "POST", "PUT": "PUT", "PATCH": "PATCH", "DELETE": "DELETE",
		"CONNECT": "CONNECT", "OPTIONS": "OPTIONS", "TRACE": "TRACE",
		"get": "OTHER", "BREW": "OTHER", "PROPFIND": "OTHER", "GET ": "OTHER",
	} {
		r := &http.Request{Method: method, Pattern: "/x"}
		checkKey(t, Method, r, "method:"+want)
		checkKey(t, Pattern, r, "route:/x")
		checkKey(t, Join(Method, Pattern), r, "join:method:"+want+"|route:/x")
	}
}

func TestPattern(t *testing.T) {
	for _, row := range []struct{ why, pattern, want string }{
		{"a path", "/users/{id}", "route:/users/{id}"},
		{"a method", "GET /users/{id}", "route:/users/{id}"},
		{"another method", "HEAD /users/{id}", "route:/users/{id}"},
		{"a custom method", "PURGE /users/{id}", "route:/users/{id}"},
		{"much space", "GET \t /users/{id}", "route:/users/{id}"},
		{"a host", "example.com/users/{id}", "route:example.com/users/{id}"},
		{"a method and a host", "GET example.com/{x...}", "route:example.com/{x...}"},
		{"a space within a path is not behind a method", "/a b", "route:/a b"},
		{"gin", "/users/:id/*rest", "route:/users/:id/*rest"},
	} {
		t.Run(row.why, func(t *testing.T) {
			checkKey(t, Pattern, &http.Request{Method: "GET", Pattern: row.pattern}, row.want)
		})
	}
}

// found is a router that finds the same pattern for every request.
type found string

func (p found) RoutePattern(*http.Request) (string, error) { return string(p), nil }

// TestPatternWithoutRoute checks that a request that matches no route has another result than one whose route is
// unknown.
func TestPatternWithoutRoute(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerMinute(1).By(Pattern)}))
	r := httptest.NewRequest("GET", "/nowhere", nil)
	g := must.Get(l.Guard(r.Context(), r, found("")))(t)
	checkKey(t, Pattern, g.Request(), "route:(none)")
	if key, err := Pattern(r); !errors.Is(err, core.ErrInvalid) || key != "" {
		t.Errorf("without a router: %q, %v, want ErrInvalid", key, err)
	}
	if _, err := l.Check(r); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a limiter without a router: %v, want ErrInvalid", err)
	}
}

// An adapter in front of the router knows the pattern before r.Pattern is set.
func TestPatternOfAdapter(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerMinute(1).By(Pattern)}))
	r := httptest.NewRequest("POST", "/users/42", nil)
	g, err := l.Guard(r.Context(), r, found("/users/{id}"))
	if err != nil || !g.Admitted() {
		t.Fatal(g.Decision(), err)
	}
	checkKey(t, Pattern, g.Request(), "route:/users/{id}")
}
