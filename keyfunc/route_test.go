package keyfunc

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spillgate/spillgate/core"
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
		{"a method of one's own", "PURGE /users/{id}", "route:/users/{id}"},
		{"much space", "GET \t /users/{id}", "route:/users/{id}"},
		{"a host", "example.com/users/{id}", "route:example.com/users/{id}"},
		{"a method and a host", "GET example.com/{x...}", "route:example.com/{x...}"},
		{"a space within a path is not behind a method", "/a b", "route:/a b"},
		{"gin", "/users/:id/*rest", "route:/users/:id/*rest"},
		{"no route", "", "route:(none)"},
	} {
		t.Run(row.why, func(t *testing.T) {
			checkKey(t, Pattern, &http.Request{Method: "GET", Pattern: row.pattern}, row.want)
		})
	}
}

// An adapter in front of the router knows the pattern before r.Pattern is set.
func TestPatternOfAdapter(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerMinute(1).By(Pattern)}))
	r := httptest.NewRequest("POST", "/users/42", nil)
	r, d, _, err := l.Guard(r, func(*http.Request) string { return "/users/{id}" })
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	checkKey(t, Pattern, r, "route:/users/{id}")
}
