package route

import (
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
)

func TestBraces(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                       "",
		"/":                      "/",
		"/users":                 "/users",
		"/users/:id":             "/users/{id}",
		"/users/:id/posts/:post": "/users/{id}/posts/{post}",
		"/users/id-:id":          "/users/id-{id}",
		"/files/*path":           "/files/{path...}",
		"/files/*":               "/files/{path...}",
		`/v1/docs\:undelete`:     "/v1/docs:undelete",
		`/v1/:doc\`:              `/v1/{doc\}`,
	} {
		expect.Equal(t, Braces(pattern), want, "Braces(%q)", pattern)
	}
}

func TestWithoutMethod(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                      "",
		"/users/{id}":           "/users/{id}",
		"GET /users/{id}":       "/users/{id}",
		"/a b":                  "/a b",
		"GET\t/":                "/",
		"GET  \t/":              "/",
		"GET example.com/a/{$}": "example.com/a/{$}",
		"example.com/{path...}": "example.com/{path...}",
	} {
		expect.Equal(t, WithoutMethod(pattern), want, "WithoutMethod(%q)", pattern)
	}
}
