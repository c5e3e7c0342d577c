package ginlimit

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/internal/respond"
	"github.com/spillgate/spillgate/middleware/internal/route"
)

// New returns a middleware that charges each request to l before it passes it on. It panics if l is nil.
func New(l *core.Limiter, opts ...Option) gin.HandlerFunc {
	if l == nil {
		panic("spillgate: the limiter is nil")
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	o.setDefaults()
	return func(c *gin.Context) { o.guard(c, l) }
}

func (o *options) setDefaults() {
	if o.headers == nil {
		o.headers = headers.GitHub
	}
	if o.fail == nil {
		o.fail = func(c *gin.Context, err error) { respond.Failure(err).Write(c.Writer, c.Request) }
	}
}

func (o *options) guard(c *gin.Context, l *core.Limiter) {
	r, d, admitted, err := l.Guard(c.Request, routeOf(c))
	c.Request = r
	if err != nil {
		c.Abort()
		o.fail(c, err)
		return
	}
	o.headers(c.Writer.Header(), d)
	if admitted {
		return
	}
	c.Abort()
	if o.deny == nil {
		respond.Deny(c.Writer, c.Request, &d)
		return
	}
	respond.NoStore(c.Writer.Header())
	o.deny(c, d)
}

// routeOf returns the function that tells the route pattern of c, which gin uses again after the request.
func routeOf(c *gin.Context) func(*http.Request) string {
	path := c.FullPath()
	return func(*http.Request) string { return route.Braces(path) }
}
