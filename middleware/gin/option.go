package ginlimit

import (
	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

// An Option changes how the middleware answers. A nil argument stands for the default.
type Option func(*options)

type options struct {
	headers headers.Writer
	deny    func(*gin.Context, core.Decision)
	fail    func(*gin.Context, error)
}

// WithHeaders chooses the response headers that describe the decision. The default is headers.GitHub.
func WithHeaders(w headers.Writer) Option {
	return func(o *options) { o.headers = w }
}

// WithDenyHandler has deny answer denied requests. The chain is aborted; the headers are set, and so is Cache-Control:
// no-store; d is the decision that they show, which the context of c.Request carries as well.
func WithDenyHandler(deny func(c *gin.Context, d core.Decision)) Option {
	return func(o *options) { o.deny = deny }
}

// WithErrorHandler has fail answer requests that could not be decided: see core.Limiter.Check for the errors. Their texts
// are not meant for clients. To log an error and send the default answer, use WriteError. The chain is aborted.
func WithErrorHandler(fail func(c *gin.Context, err error)) Option {
	return func(o *options) { o.fail = fail }
}
