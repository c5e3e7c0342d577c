package chilimit

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/serve"
)

// New returns a middleware that charges each request to l before it passes it on. It panics if l is nil.
func New(l *core.Limiter, opts ...Option) func(http.Handler) http.Handler {
	var o serve.Options
	for _, opt := range opts {
		opt(&o)
	}
	return serve.New(l, o, routeOf)
}
