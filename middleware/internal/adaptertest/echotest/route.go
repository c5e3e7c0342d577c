package echotest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

// testPatterns checks which pattern a key func finds, before the router and after it, and that finding it does not change the request.
func (v Version[E, C, H, M, R]) testPatterns(t *testing.T) {
	var found []string
	rule := core.PerHour(100).By(func(r *http.Request) (string, error) {
		before := r.Pattern
		found = append(found, core.RoutePattern(r))
		expect.Equal(t, r.Pattern, before, "RoutePattern changed the request: Pattern")
		return "const:all", nil
	})
	e := v.New()
	e.Pre(v.limit(rule))
	e.Use(v.limit(rule))
	v.Group(e, "/api").Add(http.MethodGet, "/users/:id", nothing[C])
	e.Add(http.MethodGet, "/files/*", nothing[C])
	rows := []struct{ request, want string }{{"/api/users/1", "/api/users/{id}"}, {"/files/a/b", "/files/{path...}"}, {"/nowhere", ""}}
	if v.Host != nil {
		v.Host(e, "other.example").Add(http.MethodGet, "/users/:name", nothing[C])
		rows = append(rows, struct{ request, want string }{"http://other.example/users/ann", "/users/{name}"})
	}
	for _, row := range rows {
		found = nil
		serve(e, http.MethodGet, row.request)
		expect.True(t, slices.Equal(found, []string{row.want, row.want}), "%s: found %q, want %q twice", row.request, found, row.want)
	}
}

// testLastParameter checks the pattern that the documentation recommends for Rule.Routes: echo's last parameter matches slashes.
func (v Version[E, C, H, M, R]) testLastParameter(t *testing.T) {
	served := 0
	e := v.New()
	item := core.PerHour(1).By(anyone)
	item.Routes = []string{"GET /items/{id...}"}
	e.Use(v.limit(item))
	e.Add(http.MethodGet, "/items/:id", func(C) error {
		served++
		return nil
	})
	for _, path := range []string{"/items/3", "/items/3/", "/items/3/x", "/items/3/../", "/items/3%2Fx", "/items/../items/3", "/items//3", "/items/", "/items/%2e%2e/3"} {
		serve(e, http.MethodGet, path)
	}
	expect.Equal(t, served, 1, "how often the handler ran")
}

// testRewritesInFront checks that Rule.Routes reads what echo has routed, although middleware in front of the limiter has rewritten the
// request since.
func (v Version[E, C, H, M, R]) testRewritesInFront(t *testing.T) {
	for _, pattern := range []string{"/api/login", "/api/:page", "/api/*"} {
		rule := core.PerHour(5).By(anyone)
		rule.Routes = []string{"POST /api/login"}
		logins := 0
		e := v.New()
		e.Use(func(next H) H {
			return func(c C) error {
				c.Request().URL = &url.URL{Path: "/elsewhere"}
				if v.ReadsMethod {
					c.Request().Method = http.MethodGet
				}
				return next(c)
			}
		}, v.limit(rule))
		e.Add(http.MethodPost, pattern, func(C) error {
			logins++
			return nil
		})
		for range 20 {
			serve(e, http.MethodPost, "/api/login")
		}
		expect.Equal(t, logins, 5, "%s: logins", pattern)
	}
}

// rewrite changes requests as echo's Rewrite, MethodOverride and RemoveTrailingSlash do.
func rewrite[C Context](c C) {
	r := c.Request()
	switch r.URL.Path {
	case "/old":
		r.URL = &url.URL{Path: "/new"}
	case "/host":
		r.Host = "other.example"
	}
	if r.Method == http.MethodPost {
		r.Method = http.MethodDelete
	}
	r.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
}

// testRewritesBehindPre checks that middleware of Pre behind the limiter changes what echo routes, as it does without the limiter, and
// that the limiter leaves the request as it would be without the limiter.
func (v Version[E, C, H, M, R]) testRewritesBehindPre(t *testing.T) {
	rule := core.PerHour(100).By(anyone)
	watching := rule
	watching.CostAfter = core.Failures
	request := func(guards []M, method, path string) string {
		var inside, outside *http.Request
		e := v.New()
		e.Pre(func(next H) H {
			return func(c C) error {
				err := next(c)
				outside = c.Request()
				return err
			}
		})
		e.Pre(guards...)
		e.Pre(func(next H) H {
			return func(c C) error {
				rewrite(c)
				return next(c)
			}
		})
		handle := func(name string) H {
			return func(c C) error {
				inside = c.Request()
				_, limited := core.FromContext(inside.Context())
				expect.Equal(t, limited, len(guards) > 0, "%s %s: the handler finds a decision", method, path)
				return c.String(http.StatusOK, name)
			}
		}
		e.Add(http.MethodGet, "/new", handle("new"))
		e.Add(http.MethodDelete, "/new", handle("deleted"))
		if v.Host != nil {
			v.Host(e, "other.example").Add(http.MethodGet, "/host", handle("host"))
		}
		r := httptest.NewRequest(method, path, nil)
		ctx := r.Context()
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if outside != r || r.Context() != ctx || inside != nil && (r.Method != inside.Method || r.URL != inside.URL || r.Host != inside.Host) {
			t.Errorf("%s %s: afterwards, the request is %+v, want the handler's %+v", method, path, r, inside)
		}
		return fmt.Sprint(w.Code, w.Body)
	}
	wants := map[[2]string]string{{"GET", "/old"}: "200 new", {"GET", "/new/"}: "200 new", {"POST", "/new"}: "200 deleted", {"POST", "/old"}: "200 deleted"}
	if v.Host != nil {
		wants[[2]string{"GET", "/host"}] = "200 host"
	}
	for line, want := range wants {
		for why, guards := range map[string][]M{
			"none": nil, "one": {v.limit(rule)}, "two": {v.limit(rule), v.limit(rule)}, "watching": {v.limit(watching)},
		} {
			expect.Equal(t, request(guards, line[0], line[1]), want, "%v, limiters %s", line, why)
		}
	}
}
