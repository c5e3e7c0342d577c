package stdlib

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/internal/serve"
)

// An Option changes how the middleware answers. A nil argument stands for the default.
type Option func(*options)

type options = serve.Options

// WithHeaders chooses the response headers that describe the decision. The default is headers.GitHub.
func WithHeaders(w headers.Writer) Option {
	return func(o *options) { o.Headers = w }
}

// WithDenyHandler has deny answer denied requests. The headers are set, and so is Cache-Control: no-store; d is the
// decision that they show, which the context of r carries as well.
func WithDenyHandler(deny func(w http.ResponseWriter, r *http.Request, d core.Decision)) Option {
	return func(o *options) { o.Deny = deny }
}

// WithErrorHandler has fail answer requests that could not be decided: see core.Limiter.Check for the errors. Their texts
// are not meant for clients. To log an error and send the default answer, call WriteError. Calling the next handler here bypasses
// the limit.
func WithErrorHandler(fail func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(o *options) { o.Fail = fail }
}
