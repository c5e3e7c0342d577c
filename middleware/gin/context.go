package ginlimit

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/middleware/internal/deadline"
	"github.com/spillgate/spillgate/middleware/internal/route"
)

// ContextOf returns the gin.Context of a request. It is for key funcs, Match, Cost and Tier, which get only the
// request. It reports false for requests that did not pass this middleware. The gin.Context is valid until the request
// has ended. The handler finds what a callback has changed in its request, such as the form that it has parsed.
func ContextOf(r *http.Request) (*gin.Context, bool) {
	c, ok := r.Context().Value(contextKey{}).(*gin.Context)
	return c, ok
}

type contextKey struct{}

// requestContext is the context of a request. It adds the gin.Context and finds the route. The path is a copy, because
// gin reuses the gin.Context after the request.
type requestContext struct {
	context.Context
	gin  *gin.Context
	path string
}

func newRequestContext(c *gin.Context) *requestContext {
	return &requestContext{Context: c.Request.Context(), gin: c, path: c.FullPath()}
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	if key == (contextKey{}) {
		return c.gin
	}
	return c.Context.Value(key)
}

// SetRequest sets the request of the gin.Context: see core.Router.
func (c *requestContext) SetRequest(r *http.Request) { c.gin.Request = r }

// RoutePattern implements core.Router. Gin finds the route before any middleware runs.
func (c *requestContext) RoutePattern(*http.Request) (string, error) {
	return route.Braces(c.path), nil
}

// RouteTarget says which path gin has routed, whatever the path of the request is now: see core.Router.
func (c *requestContext) RouteTarget(*http.Request) (method, path string) {
	return "", route.Fill(route.Braces(c.path), c.gin.Param)
}

// ExtendDeadlines implements core.DeadlineExtender.
func (c *requestContext) ExtendDeadlines(wait time.Duration) bool {
	return deadline.Extend(c.gin.Writer, c.gin.Request, wait)
}
