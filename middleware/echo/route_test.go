package echolimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
)

// TestPatterns mounts the middleware before the router and after it.
func TestPatterns(t *testing.T) {
	var found []string
	limit := func() echo.MiddlewareFunc {
		return echolimit.New(core.Must(core.New([]core.Rule{core.PerHour(100).By(func(r *http.Request) (string, error) {
			found = append(found, core.RoutePattern(r))
			return "const:all", nil
		})})))
	}
	h := func(echo.Context) error { return nil }
	e := echo.New()
	e.Pre(limit())
	e.Use(limit())
	e.Group("/api").GET("/users/:id", h)
	e.GET("/files/*", h)
	for _, row := range []struct{ request, want string }{
		{"/api/users/1", "/api/users/{id}"},
		{"/files/a/b", "/files/{path...}"},
		{"/nowhere", ""},
	} {
		found = nil
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, row.request, nil))
		if !slices.Equal(found, []string{row.want, row.want}) {
			t.Errorf("%s: found %q, want twice %q", row.request, found, row.want)
		}
	}
}

// TestLastParameterMatchesSlashes checks the pattern for Rule.Routes that the documentation names.
func TestLastParameterMatchesSlashes(t *testing.T) {
	served := 0
	e := echo.New()
	item := core.PerHour(1).By(func(*http.Request) (string, error) { return "const:all", nil })
	item.Routes = []string{"GET /items/{id...}"}
	e.Use(echolimit.New(core.Must(core.New([]core.Rule{item}))))
	e.GET("/items/:id", func(echo.Context) error {
		served++
		return nil
	})
	for _, path := range []string{"/items/3", "/items/3/", "/items/3/x", "/items/3/../", "/items/3%2Fx", "/items/../items/3", "/items//3", "/items/", "/items/%2e%2e/3"} {
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	if served != 1 {
		t.Errorf("the handler ran %d times, want 1", served)
	}
}
