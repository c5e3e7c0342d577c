package ginlimit

import (
	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

// An Option changes how the middleware responds. A nil argument means the default.
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

// WithDenyHandler uses deny to respond to denied requests. The chain is aborted. The rate limit headers and
// Cache-Control: no-store are already set. The headers show d, and the context of c.Request carries it too. To log the
// denial or add a header and then send the default response, call WriteDenial.
func WithDenyHandler(deny func(c *gin.Context, d core.Decision)) Option {
	return func(o *options) { o.deny = deny }
}

// WithErrorHandler uses fail to respond to requests that could not be decided: see core.Limiter.Check for the errors.
// The chain is aborted. Do not send the errors' texts to clients. To log the error and then send the default response,
// call WriteError.
func WithErrorHandler(fail func(c *gin.Context, err error)) Option {
	return func(o *options) { o.fail = fail }
}
