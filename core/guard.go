package core

import (
	"context"
	"errors"
	"net/http"
	"unsafe"

	"github.com/spillgate/spillgate/internal/logger"
	"github.com/spillgate/spillgate/internal/routes"
)

// A Guard is for adapters. It guards one request, from the decision to the end of the response:
//
//	g, err := limiter.Guard(r.Context(), r, router)
//	defer g.End()
//	switch {
//	case err != nil:
//		stdlib.WriteError(w, g.Request(), err)
//	case !g.Admitted():
//		deny(w, g.Request(), g.Decision())
//	case g.Watches():
//		serveAndSettle(next, w, &g) // calls g.Settle with the Outcome
//	default:
//		next.ServeHTTP(w, g.Request())
//	}
type Guard struct {
	request *http.Request // that Guard was called with
	own     *guarded      // the copy to pass on, which carries what the limiter has decided
	room    *[1]Result    // for the result, which observers may keep; nil if there are none
}

// Guard is Check for adapters. Pass Guard.Request to the next handler: a copy of r whose context extends ctx and carries
// the decision. An adapter may add values to ctx. router finds the route of r for RoutePattern, and may be nil.
//
// Under a rule with MaxWait, Guard sleeps until the request's turn. A request whose turn comes after the deadline of ctx is
// denied. So is one whose turn comes after the server's WriteTimeout or, if it has a body, ReadTimeout, unless router is a
// DeadlineExtender that can extend them. If ctx ends before the request's turn, Guard gives the charge back, and the error
// wraps ErrUnavailable and ctx's error. Otherwise, Guard returns the same errors as Check. Whether or not there is an
// error, the adapter calls Guard.End once the response has been written.
func (l *Limiter) Guard(ctx context.Context, r *http.Request, router Router) (Guard, error) {
	ctx = orBackground(ctx)
	if r == nil {
		return newGuard(l, ctx, new(http.Request), router, false), prefix(errNoRequest)
	}
	g := newGuard(l, ctx, r, router, l != nil && len(l.observers) > 0)
	if framework, ok := router.(interface{ SetRequest(*http.Request) }); ok {
		framework.SetRequest(g.Request())
	}
	c := &g.own.receipt
	c.sleeps = true
	err := l.check(&g.own.request, &g)
	if c.held {
		c.keepHeld(ctx)
	}
	if c.waits() {
		if err = l.await(ctx, c); err != nil {
			err = prefix(&textError{"the request did not wait for its turn: " + err.Error(), []error{ErrUnavailable, err}})
		}
	}
	if err == nil {
		c.stage = decided
	}
	return g, err
}

// Request returns the request to pass on. Its context carries the decision for FromContext.
func (g *Guard) Request() *http.Request { return &g.own.request }

// Decision returns what FromContext returns for Request: the decision of this limiter, joined with the decisions of the
// limiters further out. Headers are written from it. After an error, it is the decision of these alone: zero if there are none.
func (g *Guard) Decision() Decision {
	return g.decision(new([1]Result)) // inlined, so that the room is on the stack of a caller that does not keep the decision
}

// decision is Decision with room for the result, if no other limiter has decided.
func (g *Guard) decision(room *[1]Result) Decision {
	if c := &g.own.receipt; c.nested || c.stage != decided {
		d, _ := FromContext(&g.own.carried)
		return d
	}
	if g.room != nil {
		room = g.room
	}
	return g.own.receipt.view(room)
}

// Admitted reports whether this limiter admits the request, whatever outer limiters decided.
func (g *Guard) Admitted() bool { return g.own.receipt.stage == decided && g.own.receipt.allowed }

// Watches reports whether a rule with CostAfter applies to the admitted request. If so, the adapter must watch the
// response and call Settle. If not, it passes on the ResponseWriter unchanged.
func (g *Guard) Watches() bool { return g.own.receipt.held && g.own.receipt.watches() }

// End settles what the limiter still holds for the request. It also copies what the next handler has changed in Request
// back to the request that Guard was called with: the route that a router has found, for example, or the files of a
// multipart form, which the server removes. If nothing has changed, End does not write to that request. Adapters defer
// End, because a handler may panic.
func (g *Guard) End() {
	if g.own.receipt.held {
		var o Outcome
		if g.Watches() { // the adapter should have called Settle; without an error, the request would count as a success
			o.Err = errors.New("the response was not watched")
		}
		g.Settle(o)
	}
	g.own.restore(g.request)
}

// carried is a context that carries the decision of one limiter. The context that it extends may carry decisions of others.
type carried struct {
	context.Context
	router  Router  // nil if no adapter is involved
	receipt receipt // of what the limiter decides
}

// guarded is a copy of a request, for callbacks and handlers, and its context, in one allocation.
type guarded struct {
	request http.Request
	carried
}

// roomy is a guarded with room for its result, which callers of Check and observers may keep.
type roomy struct {
	guarded
	room [1]Result
}

// newGuard returns a Guard with a copy of r, for l to decide. The copy's context extends ctx. net/http adds the trailers of a
// chunked HTTP/1 body to the Trailer map of the request that the server made, which may be r. So r and its copy share
// one map.
func newGuard(l *Limiter, ctx context.Context, r *http.Request, router Router, withRoom bool) (g Guard) {
	if withRoom {
		own := new(roomy)
		g = Guard{request: r, own: &own.guarded, room: &own.room}
	} else {
		g = Guard{request: r, own: new(guarded)}
	}
	own := g.own
	own.Context, own.router = ctx, router
	own.receipt.limiter, own.receipt.nested = l, carriedBy(ctx) != nil
	if r.Trailer == nil && len(r.TransferEncoding) > 0 {
		r.Trailer = make(http.Header)
	}
	own.request = *r.WithContext(&own.carried)
	return g
}

// restore copies what handlers have changed in g's request back to r, so that r is as it would be without the limiter.
// If nothing has changed, restore does not write to r, because other goroutines may be reading it.
func (g *guarded) restore(r *http.Request) {
	ctx := r.Context()
	if now := g.request.Context(); now != context.Context(&g.carried) { // the handler called *r = *r.WithContext(now)
		ctx = context.WithValue(now, contextKey{}, g.before())
	} else if identical(r, g.request.WithContext(ctx)) {
		return
	}
	*r = *g.request.WithContext(ctx)
}

// identical reports whether a and b have the same bytes. SetPathValue and ServeMux set fields of a request that are not
// exported, and ServeMux sets them even if its pattern is the one that is already there, so only the bytes show whether a
// handler has changed a request. Equal requests with different bytes are copied once more than necessary.
func identical(a, b *http.Request) bool {
	const size = unsafe.Sizeof(http.Request{})
	return *(*[size]byte)(unsafe.Pointer(a)) == *(*[size]byte)(unsafe.Pointer(b))
}

// carriedBy returns the innermost carried that ctx extends, or nil.
func carriedBy(ctx context.Context) *carried {
	c, _ := ctx.Value(contextKey{}).(*carried)
	return c
}

func (c *carried) Value(key any) any {
	switch {
	case key == contextKey{}:
		return c
	case key == routes.RouterKey{} && c.router != nil:
		return c.router
	case key == logger.Key{} && c.receipt.limiter != nil:
		return c.receipt.limiter.reporter.log()
	}
	return c.Context.Value(key)
}
