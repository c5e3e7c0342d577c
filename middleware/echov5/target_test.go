package echolimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	echolimit "github.com/spillgate/spillgate/middleware/echov5"
)

// TestRoutesBehindRewrites checks that Rule.Routes reads the path that echo has routed, although middleware in front of the
// limiter has rewritten the request since.
func TestRoutesBehindRewrites(t *testing.T) {
	for _, pattern := range []string{"/api/login", "/api/:page", "/api/*"} {
		rule := core.Rule{Key: func(*http.Request) (string, error) { return "const:all", nil }, Limits: []core.Limit{core.PerHour(5)}, Routes: []string{"POST /api/login"}}
		logins := 0
		e := echo.New()
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				c.Request().URL = &url.URL{Path: "/elsewhere"}
				c.Request().Method = http.MethodGet
				return next(c)
			}
		}, echolimit.New(core.Must(core.New([]core.Rule{rule}))))
		e.POST(pattern, func(*echo.Context) error {
			logins++
			return nil
		})
		for range 20 {
			e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/api/login", nil))
		}
		if logins != 5 {
			t.Errorf("%s: %d logins, want 5", pattern, logins)
		}
	}
}
