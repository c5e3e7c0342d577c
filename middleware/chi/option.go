package chilimit

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/internal/serve"
)

// An Option changes how the middleware responds. A nil argument means the default.
type Option func(*options)

type options = serve.Options

// WithHeaders chooses the response headers that describe the decision. The default is headers.GitHub.
func WithHeaders(w headers.Writer) Option {
	return func(o *options) { o.Headers = w }
}

// WithDenyHandler uses deny to respond to denied requests. The rate limit headers and Cache-Control: no-store are
// already set. The headers show d, and the context of r carries it too. To log the denial or add a header and then send
// the default response, call WriteDenial.
func WithDenyHandler(deny func(w http.ResponseWriter, r *http.Request, d core.Decision)) Option {
	return func(o *options) { o.Deny = deny }
}

// WithErrorHandler uses fail to respond to requests that could not be decided: see core.Limiter.Check for the errors. Do not send
// their texts to clients. To log the error and then send the default response, call WriteError. Calling the next handler here
// bypasses the limit.
func WithErrorHandler(fail func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(o *options) { o.Fail = fail }
}
