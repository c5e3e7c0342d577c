package core

import (
	"context"
	"net/http"
)

type contextKey struct{}

// carried is a context that carries the decision of one limiter, on top of one that may carry those of others.
type carried struct {
	context.Context
	before *carried
	route  func(*http.Request) string // nil if no adapter told
	given  *Decision                  // to NewContext; nil if Guard decides, in charge
	charge charge
}

// guarded is a request with its context and what Guard decides: one allocation takes 0.8 of the time of two. It stays
// within 632 bytes, so that with the word that the runtime adds it fits one of 640. Who keeps a decision keeps it all.
type guarded struct {
	request http.Request
	context carried
}

// carriedBy returns what ctx carries, or nil.
func carriedBy(ctx context.Context) *carried {
	c, _ := ctx.Value(contextKey{}).(*carried)
	return c
}

// Value implements context.Context.
func (c *carried) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// own returns the decision that c itself carries, if it is made.
func (c *carried) own() (Decision, bool) {
	switch {
	case c.given != nil:
		return *c.given, true
	case c.charge.made:
		return c.charge.decision(), true
	}
	return Decision{}, false
}

// decision returns what is known so far: all decisions that c and those before it carry, joined.
func (c *carried) decision() (Decision, bool) {
	if c == nil {
		return Decision{}, false
	}
	own, ok := c.own()
	if c.before == nil {
		return own, ok
	}
	before, known := c.before.decision()
	switch {
	case !known:
		return own, ok
	case !ok:
		return before, true
	}
	return join(before, own), true
}

// find returns the decision that l made, unless it was only a peek.
func (c *carried) find(l *Limiter) (Decision, bool) {
	for ; c != nil; c = c.before {
		if d, ok := c.own(); ok && d.madeBy(l) {
			return d, true
		}
	}
	return Decision{}, false
}

// NewContext returns a context that carries d. If ctx carries the decision of another limiter, the results of both are
// joined: the request is allowed if both allow it, and At is the instant of the tighter of the two. If ctx carries the
// decision of the same limiter, it stays as it is.
func NewContext(ctx context.Context, d Decision) context.Context {
	before := carriedBy(ctx)
	if d.charge != nil && len(d.more) == 0 {
		if _, ok := before.find(d.charge.limiter); ok {
			return ctx
		}
	}
	return &carried{Context: ctx, before: before, given: &d}
}

// FromContext returns the decision that ctx carries: that of the limiter, or of all limiters, that guard the request.
func FromContext(ctx context.Context) (Decision, bool) {
	c := carriedBy(ctx)
	if c != nil && c.before == nil && c.charge.made {
		return c.charge.decision(), true
	}
	return c.decision()
}

// join returns the decision that two limiters make together, a before b.
func join(a, b Decision) Decision {
	d := Decision{Allowed: a.Allowed && b.Allowed, At: a.At, Degraded: a.Degraded}
	d.Results = append(append(d.Results, a.Results...), b.Results...)
	d.charge, d.more = a.charge, append(append(append(d.more, a.more...), b.charge), b.more...)
	if d.Degraded == nil {
		d.Degraded = b.Degraded
	}
	t, enforced := b.Tightest()
	if u, ok := a.Tightest(); a.At.IsZero() || enforced && (!ok || tighter(&t, &u)) {
		d.At = b.At
	}
	return d
}

// Guard is Check for adapters. It returns the request to pass on, whose context carries the decision for handlers and
// whose route pattern RoutePattern finds by route. Route may be nil, and is called only if something asks. With it come
// what FromContext says of that request, which headers are to show, and whether l admits it.
func (l *Limiter) Guard(r *http.Request, route func(*http.Request) string) (_ *http.Request, d Decision, admitted bool, err error) {
	ctx := r.Context()
	before := carriedBy(ctx)
	if own, ok := before.find(l); ok {
		d, _ := before.decision()
		return r, d, own.Allowed, nil
	}
	g := new(guarded)
	c := &g.context
	c.Context, c.before, c.route = ctx, before, route
	g.request = *r.WithContext(c)
	if err := l.check(&g.request, c.charge.begin(l)); err != nil {
		return &g.request, Decision{}, false, err
	}
	c.charge.made = true
	if before == nil {
		return &g.request, c.charge.decision(), c.charge.allowed, nil
	}
	d, _ = c.decision()
	return &g.request, d, c.charge.allowed, nil
}

// RoutePattern returns the pattern of the route that serves r, such as "/users/{id}": what the adapter on its way found
// or, without one, r.Pattern. It is empty if no route is known.
func RoutePattern(r *http.Request) string {
	for c := carriedBy(r.Context()); c != nil; c = c.before {
		if c.route != nil {
			if pattern := c.route(r); pattern != "" {
				return pattern
			}
		}
	}
	return r.Pattern
}
