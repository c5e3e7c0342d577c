package core

import (
	"context"
	"net/http"
	"slices"
)

type contextKey struct{}

// carried is a context that carries the decision of one limiter. The context that it extends may carry those of others.
type carried struct {
	context.Context
	router  Router  // nil if no adapter is involved
	receipt receipt // of what Guard decides
}

// guarded is a request that Guard passes on and its context: one allocation takes less time than two. It is
// 512 bytes long: above that, the runtime takes longer for each.
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

// before returns what carries the decision of the limiter further out, or nil.
func (c *carried) before() *carried {
	if !c.receipt.nested {
		return nil
	}
	return carriedBy(c.Context)
}

// own sets d to the decision that c itself carries, and reports false if that is not made.
func (c *carried) own(d *Decision) bool {
	if e := c.receipt.extra; e != nil && e.added != nil {
		*d = *e.added
		return true
	}
	made := c.receipt.stage == decided
	if made {
		c.receipt.view(d)
	}
	return made
}

// decision returns what is known so far: all decisions that c and those before it carry, joined.
func (c *carried) decision() (Decision, bool) {
	if c == nil {
		return Decision{}, false
	}
	var own Decision
	ok := c.own(&own)
	further := c.before()
	if further == nil {
		return own, ok
	}
	before, known := further.decision()
	switch {
	case !known:
		return own, ok
	case !ok:
		return before, true
	}
	return join(before, own), true
}

// find returns the one of c and those further out that carries what l decided, or nil. A peek is no decision.
func (c *carried) find(l *Limiter) *carried {
	for ; c != nil; c = c.before() {
		var d Decision
		if c.own(&d) && d.madeBy(l) {
			return c
		}
	}
	return nil
}

// NewContext returns a context that carries d. If ctx carries the decision of another limiter, the results of both are
// joined: the request is allowed if both allow it, and At is the instant of the tighter of the two. If ctx carries the
// decision of the same limiter, it stays as it is.
func NewContext(ctx context.Context, d Decision) context.Context {
	before := carriedBy(ctx)
	if made := d.receipts(); len(made) == 1 {
		if before.find(made[0].limiter) != nil {
			return ctx
		}
	}
	c := &carried{Context: ctx}
	c.receipt.nested, c.receipt.extra = before != nil, &extra{added: &d}
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
	switch made := slices.Concat(a.receipts(), b.receipts()); len(made) {
	case 0:
	case 1:
		d.receipt = made[0]
	default:
		d.receipt = &receipt{extra: &extra{joined: made}}
	}
	if d.Degraded == nil {
		d.Degraded = b.Degraded
	}
	t, enforced := b.Tightest()
	if u, ok := a.Tightest(); a.At.IsZero() || enforced && (!ok || tighter(&t, &u)) {
		d.At = b.At
	}
	return d
}
