package core

import (
	"context"
	"net/http"
	"slices"
	"unsafe"

	"github.com/spillgate/spillgate/internal/logger"
	"github.com/spillgate/spillgate/internal/routes"
)

type contextKey struct{}

// carried is a context that carries the decision of one limiter. The context that it extends may carry decisions of others.
type carried struct {
	context.Context
	router  Router  // nil if no adapter is involved
	receipt receipt // of what Guard decides
}

// guarded is a copy of a request, which callbacks and handlers get, and its context: one allocation takes less time
// than two.
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
	g.request = r
	if withRoom {
		own := new(roomy)
		g.own, g.room = &own.guarded, &own.room
	} else {
		g.own = new(guarded)
	}
	own := g.own
	own.Context, own.router = ctx, router
	own.receipt.limiter, own.receipt.nested = l, carriedBy(ctx) != nil
	if r.Trailer == nil && r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		r.Trailer = make(http.Header)
	}
	own.request = *r.WithContext(&own.carried)
	return g
}

// restore copies what handlers have changed in g's request back to r, so that r is as it would be without the limiter.
// If nothing has changed, restore does not write to r, because other goroutines may be reading it.
func (g *guarded) restore(r *http.Request) {
	now, ctx := g.request.Context(), r.Context()
	replaced := now != context.Context(&g.carried) // the handler called *r = *r.WithContext(now)
	if !replaced && identical(r, g.request.WithContext(ctx)) {
		return
	}
	if replaced {
		ctx = &restored{now, g.before()}
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

// restored is a context that carries the decisions of before, or none if before is nil, instead of the decisions of the context that it extends.
type restored struct {
	context.Context
	before *carried
}

// Value implements context.Context.
func (c *restored) Value(key any) any {
	if key == (contextKey{}) {
		return c.before
	}
	return c.Context.Value(key)
}

// carriedBy returns the innermost carried that ctx extends, or nil.
func carriedBy(ctx context.Context) *carried {
	c, _ := ctx.Value(contextKey{}).(*carried)
	return c
}

// Value implements context.Context.
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

// before returns the context that carries the decision of the next limiter further out, or nil.
func (c *carried) before() *carried {
	if !c.receipt.nested {
		return nil
	}
	return carriedBy(c.Context)
}

// own returns the decision that c itself carries, with room for its result. It reports false if the decision has not been
// made.
func (c *carried) own(room *[1]Result) (d Decision, ok bool) {
	if e := c.receipt.extra; e != nil && e.added != nil {
		return *e.added, true
	}
	if c.receipt.stage != decided {
		return d, false
	}
	return c.receipt.view(room), true
}

// decision returns the decisions made so far, joined: by the limiter of c and by the limiters further out. It reports false
// if there is none.
func (c *carried) decision() (d Decision, ok bool) {
	if c == nil {
		return d, false
	}
	d, ok = c.own(new([1]Result))
	further := c.before()
	if further == nil {
		return d, ok
	}
	before, made := further.decision()
	switch {
	case !made:
		return d, ok
	case !ok, c.receipt.isEmpty() && before.madeBy(c.receipt.limiter):
		return before, true
	}
	return join(before, d), true
}

// receiptsOf appends to dst the receipts of l for the request that carries c, the outermost first. It leaves out peeks.
func (c *carried) receiptsOf(l *Limiter, dst []*receipt) []*receipt {
	if c == nil {
		return dst
	}
	dst = c.before().receiptsOf(l, dst)
	if d, ok := c.own(new([1]Result)); ok {
		for _, one := range d.receipts() {
			if one.limiter == l && one.stage != peeking {
				dst = append(dst, one)
			}
		}
	}
	return dst
}

// ofLimiter returns the decision of c, which has been made, joined with the earlier decisions of the same limiter for
// the request. room is for the result of c.
func (c *carried) ofLimiter(room *[1]Result) Decision {
	var earlier [2]*receipt
	receipts := c.before().receiptsOf(c.receipt.limiter, earlier[:0])
	if len(receipts) == 0 {
		return c.receipt.view(room)
	}
	if !c.receipt.isEmpty() {
		receipts = append(receipts, &c.receipt)
	}
	return decisionOf(receipts)
}

// NewContext is for adapters that do not use Guard. It returns a context that carries d. If ctx already carries
// decisions, NewContext joins d with them: the request is allowed if all allow it, and At is the instant of the
// tightest result. A decision that ctx already carries is not added again.
func NewContext(ctx context.Context, d Decision) context.Context {
	before := carriedBy(ctx)
	if made := d.receipts(); before != nil && len(made) > 0 {
		known, _ := before.decision()
		added := slices.DeleteFunc(slices.Clone(made), func(c *receipt) bool { return slices.Contains(known.receipts(), c) })
		switch len(added) {
		case 0:
			return ctx
		case len(made):
		default:
			d = decisionOf(added)
		}
	}
	c := &carried{Context: ctx}
	c.receipt.nested, c.receipt.extra = before != nil, &extra{added: &d}
	return c
}

// WithoutDecision is for adapters that may get the context of another request: of the one that opened a session, for example, or of
// a batch. It returns a context with the values and the deadline of ctx, but without the decisions that ctx carries, so that all
// rules apply to the request again.
func WithoutDecision(ctx context.Context) context.Context {
	if carriedBy(ctx) == nil {
		return ctx
	}
	return &restored{Context: ctx}
}

// FromContext returns the decision that ctx carries, joined from the decisions of all limiters that guard the request.
// It reports false if there is none.
func FromContext(ctx context.Context) (d Decision, ok bool) {
	return carriedBy(ctx).decision()
}
