// Package serve limits an http.Handler. The adapters for net/http and chi share it.
package serve

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/internal/deadline"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
	"github.com/spillgate/spillgate/middleware/internal/respond"
	"github.com/spillgate/spillgate/middleware/internal/watch"
)

// Options say how the adapter writes the decision to the headers, and how it responds to denials and errors. Nil fields
// mean the defaults.
type Options struct {
	Headers headers.Writer
	Deny    func(http.ResponseWriter, *http.Request, core.Decision)
	Fail    func(http.ResponseWriter, *http.Request, error)
}

// New returns a middleware that limits handlers by l. router returns the Router for requests to next.
func New(l *core.Limiter, o Options, router func(next http.Handler) core.Router) func(http.Handler) http.Handler {
	if l == nil {
		panic("spillgate: the limiter is nil; want one that core.New returned")
	}
	if o.Fail == nil {
		o.Fail = WriteError
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("spillgate: the next handler is nil; want one such as http.DefaultServeMux")
		}
		return &limited{limiter: l, options: o, router: router(next), next: next}
	}
}

// WriteError writes the default response to an error.
func WriteError(w http.ResponseWriter, r *http.Request, err error) { respond.Failure(err).Write(w, r) }

// WriteDenial writes the default response to a denied request.
func WriteDenial(w http.ResponseWriter, r *http.Request, d core.Decision) { respond.Deny(w, r, &d) }

type limited struct {
	limiter *core.Limiter
	options Options
	router  core.Router
	next    http.Handler
}

// ServeHTTP implements http.Handler.
func (h *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	router := h.router
	if h.limiter.MayWait() {
		router = deadline.Router(router, w, r)
	}
	g, err := h.limiter.Guard(r.Context(), r, router)
	defer g.End()
	if err != nil {
		h.options.Fail(w, g.Request(), err)
		return
	}
	respond.Headers(w.Header(), &g, h.options.Headers)
	switch {
	case g.Watches():
		h.watch(w, &g)
	case g.Admitted(): // no rule needs the outcome, so the handler gets w itself
		h.next.ServeHTTP(w, g.Request())
	default:
		h.deny(w, r, &g)
	}
}

// deny responds to r, which is denied. It has the room for the decision on its stack, so that admitted requests need less.
func (h *limited) deny(w http.ResponseWriter, r *http.Request, g *core.Guard) {
	if h.options.Deny == nil {
		d := g.Decision()
		respond.Deny(w, r, &d)
		return
	}
	respond.NoStore(w.Header())
	h.options.Deny(w, g.Request(), g.Decision())
}

// watch serves an admitted request and settles what is held for it.
func (h *limited) watch(w http.ResponseWriter, g *core.Guard) {
	w, seen := watch.Writer(w, g.Request())
	returned := false
	defer func() {
		a := seen.Answer()
		a.Returned, a.Status = returned, seen.StatusOf(a.Status)
		g.Settle(outcome.Of(g.Request(), a))
	}()
	h.next.ServeHTTP(w, g.Request())
	returned = true
}
