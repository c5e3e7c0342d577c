package route

import "testing"

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
		if got := Braces(pattern); got != want {
			t.Errorf("Braces(%q) = %q, want %q", pattern, got, want)
		}
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
		if got := WithoutMethod(pattern); got != want {
			t.Errorf("WithoutMethod(%q) = %q, want %q", pattern, got, want)
		}
	}
}
