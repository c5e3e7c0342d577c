package echolimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	echolimit "github.com/spillgate/spillgate/middleware/echov5"
)

// TestRewritesBehindPre checks that middleware of Pre behind the limiter changes what echo routes, as it does without the
// limiter, and that the request is afterwards as it would be without the limiter.
func TestRewritesBehindPre(t *testing.T) {
	rule := core.Rule{Key: func(*http.Request) (string, error) { return "const:all", nil }, Limits: []core.Limit{core.PerHour(100)}}
	watching := rule
	watching.CostAfter = core.Failures
	// rewrite changes requests as echo's Rewrite, MethodOverride and RemoveTrailingSlash do.
	rewrite := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			r := c.Request()
			if r.URL.Path == "/old" {
				r.URL = &url.URL{Path: "/new"}
			}
			if r.Method == http.MethodPost {
				r.Method = r.Header.Get(echo.HeaderXHTTPMethodOverride)
			}
			r.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
			return next(c)
		}
	}
	limit := func(r core.Rule) echo.MiddlewareFunc { return echolimit.New(core.Must(core.New([]core.Rule{r}))) }
	serve := func(guards []echo.MiddlewareFunc, method, path string) string {
		var inside, outside *http.Request
		e := echo.New()
		e.Pre(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				err := next(c)
				outside = c.Request()
				return err
			}
		})
		e.Pre(guards...)
		e.Pre(rewrite)
		handle := func(name string) echo.HandlerFunc {
			return func(c *echo.Context) error {
				inside = c.Request()
				_, limited := core.FromContext(inside.Context())
				if limited != (len(guards) > 0) {
					t.Errorf("%s %s: the handler finds a decision: %v", method, path, limited)
				}
				return c.String(http.StatusOK, name)
			}
		}
		e.GET("/new", handle("new"))
		e.DELETE("/new", handle("deleted"))
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set(echo.HeaderXHTTPMethodOverride, http.MethodDelete)
		ctx := r.Context()
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if outside != r || r.Context() != ctx || inside != nil && (r.Method != inside.Method || r.URL != inside.URL || r.Host != inside.Host) {
			t.Errorf("%s %s: afterwards, the request is %+v, want the handler's %+v", method, path, r, inside)
		}
		return fmt.Sprint(w.Code, w.Body)
	}
	for request, want := range map[[2]string]string{
		{"GET", "/old"}: "200 new", {"GET", "/new/"}: "200 new", {"POST", "/new"}: "200 deleted", {"POST", "/old"}: "200 deleted",
	} {
		for why, guards := range map[string][]echo.MiddlewareFunc{
			"none": nil, "one": {limit(rule)}, "two": {limit(rule), limit(rule)}, "watching": {limit(watching)},
		} {
			if got := serve(guards, request[0], request[1]); got != want {
				t.Errorf("%v, limiters %s: got %s, want %s", request, why, got, want)
			}
		}
	}
}
