package stdlib

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/option"
	"github.com/spillgate/spillgate/middleware/internal/serve"
)

// New returns a middleware that asks l about each request before the next handler runs. It panics if l, an option or that handler is
// nil.
//
// The route pattern, which keyfunc.Pattern uses, is known inside an http.ServeMux and directly around one, or around
// any handler with a Handler method like http.ServeMux's.
func New(l *core.Limiter, opts ...Option) func(http.Handler) http.Handler {
	var o options
	option.Apply(&o, opts)
	return serve.New(l, o, newRouter)
}

// WriteError writes the default response to a request that could not be decided. An error handler that only logs must call
// it last: otherwise the client gets an empty 200. A call of gRPC or Connect gets the error in its own protocol.
func WriteError(w http.ResponseWriter, r *http.Request, err error) { serve.WriteError(w, r, err) }

// WriteDenial writes the default response to a request that d denies: status 429, or 413 if the request costs more than is ever
// admitted at once, with a problem in JSON that names the violated policies. A deny handler that logs the denial or adds a header
// calls it last: without a call, the client gets an empty 200. It does not write the headers that describe d: the middleware has
// set them. A call of gRPC or Connect ends with RESOURCE_EXHAUSTED, in its own protocol.
func WriteDenial(w http.ResponseWriter, r *http.Request, d core.Decision) { serve.WriteDenial(w, r, d) }
