package ginlimit

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/call"
	"github.com/spillgate/spillgate/middleware/internal/option"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// New returns a middleware that asks l about each request before the next handler runs. It panics if l or an option is nil.
func New(l *core.Limiter, opts ...Option) gin.HandlerFunc {
	if l == nil {
		panic("spillgate: the limiter is nil; want one that core.New returned")
	}
	var o options
	option.Apply(&o, opts)
	if o.fail == nil {
		o.fail = WriteError
	}
	return func(c *gin.Context) { o.limit(c, l) }
}

func (o *options) limit(c *gin.Context, l *core.Limiter) {
	ctx := newRequestContext(c)
	outer := c.Request
	g, err := l.Guard(ctx, outer, ctx)
	defer func() {
		if c.Request == g.Request() { // no handler has replaced it
			c.Request = outer
		}
		g.End()
	}()
	if err != nil {
		c.Abort()
		o.fail(c, err)
		return
	}
	respond.Headers(c.Writer.Header(), &g, o.headers)
	if g.Admitted() {
		next(c, &g)
	} else {
		o.denied(c, &g)
	}
}

// denied responds to a denied request. It has the room for the decision on its stack, so that admitted requests need less.
func (o *options) denied(c *gin.Context, g *core.Guard) {
	c.Abort()
	if o.deny == nil {
		d := g.Decision()
		respond.Deny(c.Writer, c.Request, &d)
		return
	}
	respond.NoStore(c.Writer.Header())
	o.deny(c, g.Decision())
}

// next runs the handlers of an admitted request and settles what the limiter holds for it.
func next(c *gin.Context, g *core.Guard) {
	if !g.Watches() {
		c.Next()
		return
	}
	a, errs := outcome.Answer{}, len(c.Errors)
	outer, seen := c.Writer, call.Watch(c.Writer, c.Request)
	if seen != nil {
		c.Writer = &callWriter{outer, seen}
	}
	defer func() {
		a.Status, a.Bytes, a.Written = seen.Status(outer.Status()), int64(outer.Size()), outer.Written()
		if w, ok := c.Writer.(*callWriter); ok && w.call == seen { // no handler has replaced it
			c.Writer = outer
		}
		if len(c.Errors) > errs && !a.Written && a.Status < http.StatusBadRequest {
			a.Err = c.Errors.Last()
		}
		g.Settle(outcome.Of(g.Request(), a))
	}()
	c.Next()
	a.Returned = true
}

// WriteError writes the default response to a request that could not be decided. An error handler that only logs must call
// it last: otherwise the client gets an empty 200. A call of gRPC or Connect gets the error in its own protocol.
func WriteError(c *gin.Context, err error) { respond.Failure(err).Write(c.Writer, c.Request) }

// WriteDenial writes the default response to a request that d denies: status 429, or 413 if the request costs more than is ever
// admitted at once, with a problem in JSON that names the violated policies. A deny handler that logs the denial or adds a header
// calls it last: without a call, the client gets an empty 200. It does not write the headers that describe d: the middleware has
// set them. A call of gRPC or Connect ends with RESOURCE_EXHAUSTED, in its own protocol.
func WriteDenial(c *gin.Context, d core.Decision) { respond.Deny(c.Writer, c.Request, &d) }
