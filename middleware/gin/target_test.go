package ginlimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
)

// TestRoutesBehindRewrites checks that Rule.Routes reads the path that gin has routed, although middleware in front of the
// limiter has since rewritten the request.
func TestRoutesBehindRewrites(t *testing.T) {
	for _, pattern := range []string{"/api/login", "/api/:page", "/api/*page"} {
		rule := core.Rule{Key: func(*http.Request) (string, error) { return "const:all", nil }, Limits: []core.Limit{core.PerHour(5)}, Routes: []string{"POST /api/login"}}
		logins := 0
		r := gin.New()
		r.Use(func(c *gin.Context) { c.Request.URL = &url.URL{Path: "/elsewhere"} }, ginlimit.New(core.Must(core.New([]core.Rule{rule}))))
		r.POST(pattern, func(*gin.Context) { logins++ })
		for range 20 {
			r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/api/login", nil))
		}
		if logins != 5 {
			t.Errorf("%s: %d logins, want 5", pattern, logins)
		}
	}
}

// TestSkipsOfEngines checks that a skip never frees another handler, whatever the engine's settings.
func TestSkipsOfEngines(t *testing.T) {
	for why, set := range map[string]func(*gin.Engine){
		"RemoveExtraSlash":   func(e *gin.Engine) { e.RemoveExtraSlash = true },
		"UseRawPath":         func(e *gin.Engine) { e.UseRawPath = true },
		"both":               func(e *gin.Engine) { e.UseRawPath, e.RemoveExtraSlash = true, true },
		"UnescapePathValues": func(e *gin.Engine) { e.UseRawPath, e.UnescapePathValues = true, false },
	} {
		t.Run(why, func(t *testing.T) {
			adaptertest.RunSkips(t, adaptertest.Adapter{Build: func(app adaptertest.App) http.Handler {
				r := gin.New()
				set(r)
				r.Use(all(app.Guards)...)
				routes(r, app)
				return app.Cleaned(r)
			}})
		})
	}
}
