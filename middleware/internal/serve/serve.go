// Package serve guards an http.Handler. It is what the adapters for net/http and chi share.
package serve

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// Options say how a denial and a failure are answered. Nil fields mean the defaults.
type Options struct {
	Headers headers.Writer
	Deny    func(http.ResponseWriter, *http.Request, core.Decision)
	Fail    func(http.ResponseWriter, *http.Request, error)
}

// New returns a middleware that guards handlers by l. Route returns the function that tells the route pattern of a
// request which is about to be passed to next.
func New(l *core.Limiter, o Options, route func(next http.Handler) func(*http.Request) string) func(http.Handler) http.Handler {
	if l == nil {
		panic("spillgate: the limiter is nil")
	}
	if o.Headers == nil {
		o.Headers = headers.GitHub
	}
	if o.Fail == nil {
		o.Fail = func(w http.ResponseWriter, r *http.Request, err error) { respond.Failure(err).Write(w, r) }
	}
	return func(next http.Handler) http.Handler {
		return &guarded{limiter: l, options: o, route: route(next), next: next}
	}
}

type guarded struct {
	limiter *core.Limiter
	options Options
	route   func(*http.Request) string
	next    http.Handler
}

// ServeHTTP implements http.Handler.
func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, d, admitted, err := g.limiter.Guard(r, g.route)
	if err != nil {
		g.options.Fail(w, r, err)
		return
	}
	g.options.Headers(w.Header(), d)
	switch {
	case admitted:
		g.next.ServeHTTP(w, r)
	case g.options.Deny == nil:
		respond.Deny(w, r, &d)
	default:
		respond.NoStore(w.Header())
		g.options.Deny(w, r, d)
	}
}
