package core

import (
	"context"
	"net/http"
)

type contextKey struct{}

// carried is a context that carries the decision of one limiter, on top of one that may carry those of others. It is
// a context of its own, rather than a value in one, and holds what Guard decides, because each saves a request an
// allocation.
type carried struct {
	context.Context
	before *carried
	route  func(*http.Request) string // nil if no adapter told
	own    Decision
	made   bool   // own is set
	charge charge // what Guard has decided
}

func newCarried(ctx context.Context) *carried {
	return &carried{Context: ctx, before: carriedBy(ctx)}
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

// add sets the decision that c carries.
func (c *carried) add(d Decision) { c.own, c.made = d, true }

// decision returns what is known so far: all decisions that c and those before it carry, joined.
func (c *carried) decision() (Decision, bool) {
	for ; c != nil; c = c.before {
		if !c.made {
			continue
		}
		if before, ok := c.before.decision(); ok {
			return join(before, c.own), true
		}
		return c.own, true
	}
	return Decision{}, false
}

// find returns the decision that l made, unless it was only a peek.
func (c *carried) find(l *Limiter) (Decision, bool) {
	for ; c != nil; c = c.before {
		if made := c.own.charges; len(made) == 1 && made[0].limiter == l && !made[0].peek {
			return c.own, true
		}
	}
	return Decision{}, false
}

// NewContext returns a context that carries d. If ctx carries the decision of another limiter, the results of both are
// joined: the request is allowed if both allow it, and At is the instant of the tighter of the two. If ctx carries the
// decision of the same limiter, it stays as it is.
func NewContext(ctx context.Context, d Decision) context.Context {
	c := newCarried(ctx)
	if len(d.charges) == 1 {
		if _, ok := c.before.find(d.charges[0].limiter); ok {
			return ctx
		}
	}
	c.add(d)
	return c
}

// FromContext returns the decision that ctx carries: that of the limiter, or of all limiters, that guard the request.
func FromContext(ctx context.Context) (Decision, bool) {
	return carriedBy(ctx).decision()
}

// join returns the decision that two limiters make together, a before b.
func join(a, b Decision) Decision {
	d := Decision{Allowed: a.Allowed && b.Allowed, At: a.At, Degraded: a.Degraded}
	d.Results = append(append(d.Results, a.Results...), b.Results...)
	d.charges = append(append(d.charges, a.charges...), b.charges...)
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
// whose route pattern RoutePattern finds by route. Route may be nil, and is called only if something asks.
func (l *Limiter) Guard(r *http.Request, route func(*http.Request) string) (*http.Request, Decision, error) {
	c := newCarried(r.Context())
	if d, ok := c.before.find(l); ok {
		return r, d, nil
	}
	c.route = route
	r = r.WithContext(c)
	d, err := l.check(r, c.charge.begin(l))
	if err == nil {
		c.add(d)
	}
	return r, d, err
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
