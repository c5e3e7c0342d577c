package ginlimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
)

// TestContextOf checks that each callback finds what an earlier middleware has stored in the gin.Context.
func TestContextOf(t *testing.T) {
	user := func(r *http.Request) string {
		c, ok := ginlimit.ContextOf(r)
		if !ok {
			t.Error("there is no context")
			return ""
		}
		return c.GetString("user")
	}
	rule := core.PerHour(10).By(func(r *http.Request) (string, error) { return "user:" + user(r), nil })
	rule.Match = func(r *http.Request) bool { return user(r) == "ann" }
	rule.Cost = func(r *http.Request) int { return len(user(r)) }
	rule.Tier = func(r *http.Request) []core.Limit { return []core.Limit{core.PerHour(10 * len(user(r)))} }
	r := gin.New()
	r.Use(func(c *gin.Context) { c.Set("user", "ann") }, ginlimit.New(core.Must(core.New([]core.Rule{rule}))))
	r.GET("/", func(c *gin.Context) {
		if found, ok := ginlimit.ContextOf(c.Request); !ok || found != c {
			t.Errorf("the handler finds %p, %v, want %p", found, ok, c)
		}
	})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if got := w.Header().Get("X-RateLimit-Remaining"); got != "27" {
		t.Errorf("remaining %q, want 27 of 30", got)
	}
	if c, ok := ginlimit.ContextOf(httptest.NewRequest(http.MethodGet, "/", nil)); ok || c != nil {
		t.Errorf("a request without the middleware has the context %v", c)
	}
}

// TestRequestIsRestored checks which request a middleware around two limiters finds in the gin.Context afterwards.
func TestRequestIsRestored(t *testing.T) {
	for why, row := range map[string]struct {
		handler gin.HandlerFunc
		same    bool
	}{
		"as it was":               {func(*gin.Context) {}, true},
		"as it was after a panic": {func(*gin.Context) { panic("oops") }, true},
		"changed in place":        {func(c *gin.Context) { c.Request.Pattern = "changed" }, true},
		"replaced by the handler": {func(c *gin.Context) {
			c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), key{}, "changed"))
		}, false},
	} {
		var before, after *http.Request
		limit := func() gin.HandlerFunc {
			return ginlimit.New(core.Must(core.New([]core.Rule{core.PerHour(1).By(func(*http.Request) (string, error) { return "k", nil })})))
		}
		r := gin.New()
		r.Use(func(c *gin.Context) {
			before = c.Request
			defer func() {
				_ = recover()
				after = c.Request
			}()
			c.Next()
		}, limit(), limit())
		r.GET("/", row.handler)
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		if (before == after) != row.same {
			t.Errorf("%s: same request %v, want %v", why, before == after, row.same)
		}
		if changed := after.Pattern == "changed" || after.Context().Value(key{}) == "changed"; changed != (why == "changed in place" || !row.same) {
			t.Errorf("%s: changed %v", why, changed)
		}
	}
}

type key struct{}
