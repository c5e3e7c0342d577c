package echolimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
)

// TestContextOf has each callback find what an earlier middleware has stored in the echo.Context.
func TestContextOf(t *testing.T) {
	user := func(r *http.Request) string {
		c, ok := echolimit.ContextOf(r)
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
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("user", "ann")
			return next(c)
		}
	}, echolimit.New(core.Must(core.New([]core.Rule{rule}))))
	e.GET("/", func(c echo.Context) error {
		if found, ok := echolimit.ContextOf(c.Request()); !ok || found != c {
			t.Errorf("the handler finds %p, %v, want %p", found, ok, c)
		}
		return nil
	})
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if got := w.Header().Get("X-RateLimit-Remaining"); got != "27" {
		t.Errorf("remaining %q, want 27 of 30", got)
	}
	if c, ok := echolimit.ContextOf(httptest.NewRequest(http.MethodGet, "/", nil)); ok || c != nil {
		t.Errorf("a request without the middleware has the context %v", c)
	}
}

// requestIsGivenBackCases are the cases of TestRequestIsGivenBack.
var requestIsGivenBackCases = map[string]struct {
	handler echo.HandlerFunc
	same    bool
	changed bool
}{
	"as it was":                {func(echo.Context) error { return nil }, true, false},
	"as it was after an error": {func(echo.Context) error { return errors.New("oops") }, true, false},
	"as it was after a panic":  {func(echo.Context) error { panic("oops") }, true, false},
	"changed in place": {func(c echo.Context) error {
		c.Request().Host = "changed"
		return nil
	}, true, true},
	"replaced by the handler": {func(c echo.Context) error {
		c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), key{}, "changed")))
		return nil
	}, false, true},
}

// TestRequestIsGivenBack checks which request a middleware around two limiters finds in the echo.Context afterwards.
func TestRequestIsGivenBack(t *testing.T) {
	for why, row := range requestIsGivenBackCases {
		var before, after *http.Request
		limit := func() echo.MiddlewareFunc {
			return echolimit.New(core.Must(core.New([]core.Rule{core.PerHour(1).By(func(*http.Request) (string, error) { return "k", nil })})))
		}
		e := echo.New()
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				before = c.Request()
				defer func() {
					_ = recover()
					after = c.Request()
				}()
				return next(c)
			}
		}, limit(), limit())
		e.GET("/", row.handler)
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		if (before == after) != row.same {
			t.Errorf("%s: same request %v, want %v", why, before == after, row.same)
		}
		if changed := after.Host == "changed" || after.Context().Value(key{}) == "changed"; changed != row.changed {
			t.Errorf("%s: changed %v", why, changed)
		}
	}
}

type key struct{}
