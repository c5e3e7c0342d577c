package echotest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// testContextOf checks that each callback finds what an earlier middleware has stored in echo's Context.
func (v Version[E, C, H, M, R]) testContextOf(t *testing.T) {
	user := func(r *http.Request) string {
		c, ok := v.ContextOf(r)
		if !ok {
			t.Error("there is no context")
			return ""
		}
		name, _ := c.Get("user").(string)
		return name
	}
	rule := core.PerHour(10).By(func(r *http.Request) (string, error) { return "user:" + user(r), nil })
	rule.Match = func(r *http.Request) bool { return user(r) == "ann" }
	rule.Cost = func(r *http.Request) int { return len(user(r)) }
	rule.Tier = func(r *http.Request) []core.Limit { return []core.Limit{core.PerHour(10 * len(user(r)))} }
	e := v.New()
	e.Use(func(next H) H {
		return func(c C) error {
			c.Set("user", "ann")
			return next(c)
		}
	}, v.limit(rule))
	e.Add(http.MethodGet, "/", func(c C) error {
		if found, ok := v.ContextOf(c.Request()); !ok || found != c {
			t.Errorf("the handler finds %v, %v, want %v", found, ok, c)
		}
		return nil
	})
	if got := serve(e, http.MethodGet, "/").Header().Get("X-RateLimit-Remaining"); got != "27" {
		t.Errorf("remaining %q, want 27 of 30", got)
	}
	var none C
	if c, ok := v.ContextOf(httptest.NewRequest(http.MethodGet, "/", nil)); ok || c != none {
		t.Errorf("a request without the middleware has the context %v", c)
	}
}

type key struct{}

// testRequestIsRestored checks which request a middleware around two limiters finds in echo's Context afterwards.
func (v Version[E, C, H, M, R]) testRequestIsRestored(t *testing.T) {
	for why, row := range map[string]struct {
		handle        H
		same, changed bool
	}{
		"unchanged":                {nothing[C], true, false},
		"unchanged after an error": {func(C) error { return errors.New("oops") }, true, false},
		"unchanged after a panic":  {func(C) error { panic("oops") }, true, false},
		"changed in place":         {func(c C) error { c.Request().Host = "changed"; return nil }, true, true},
		"replaced by the handler": {func(c C) error {
			c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), key{}, "changed")))
			return nil
		}, false, true},
	} {
		var before, after *http.Request
		e := v.New()
		e.Use(func(next H) H {
			return func(c C) error {
				before = c.Request()
				defer func() {
					_ = recover()
					after = c.Request()
				}()
				return next(c)
			}
		}, v.limit(core.PerHour(1).By(anyone)), v.limit(core.PerHour(1).By(anyone)))
		e.Add(http.MethodGet, "/", row.handle)
		serve(e, http.MethodGet, "/")
		if (before == after) != row.same {
			t.Errorf("%s: same request %v, want %v", why, before == after, row.same)
		}
		if changed := after.Host == "changed" || after.Context().Value(key{}) == "changed"; changed != row.changed {
			t.Errorf("%s: changed %v", why, changed)
		}
	}
}
