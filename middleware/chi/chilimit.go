package chilimit

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/serve"
)

// New returns a middleware that charges each request to l before it passes it on. It panics if l is nil.
func New(l *core.Limiter, opts ...Option) func(http.Handler) http.Handler {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return serve.New(l, o, newRouter)
}

// WriteError answers a request that could not be decided, as the middleware does without WithErrorHandler. An error handler
// that only logs calls it: without a call, the client gets an empty 200.
func WriteError(w http.ResponseWriter, r *http.Request, err error) { serve.WriteError(w, r, err) }
