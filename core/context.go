package core

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"slices"

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

// copyOf sets g to a copy of r, for l to decide. The copy's context extends ctx. net/http adds the trailers of a
// chunked HTTP/1 body to the Trailer map of the request that the server made, which may be r. So r and its copy share
// one map.
func (g *guarded) copyOf(r *http.Request, ctx context.Context, l *Limiter, router Router) {
	g.Context, g.router = ctx, router
	g.receipt.limiter, g.receipt.nested = l, carriedBy(ctx) != nil
	if r.Trailer == nil && r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		r.Trailer = make(http.Header)
	}
	g.request = *r.WithContext(&g.carried)
}

// restore copies what handlers have changed in g's request back to r, so that r is as it would be without the limiter.
// If nothing has changed, restore does not write to r, because other goroutines may be reading it.
func (g *guarded) restore(r *http.Request) {
	now, ctx := g.request.Context(), r.Context()
	replaced := now != context.Context(&g.carried) // the handler called *r = *r.WithContext(now)
	if !replaced && sameFields(r, &g.request) {
		return
	}
	if replaced {
		ctx = &restored{now, g.before()}
	}
	*r = *g.request.WithContext(ctx)
}

// sameFields reports whether two copies of a request still have the same fields. It ignores fields that only client
// requests use.
func sameFields(a, b *http.Request) bool {
	return a.Pattern == b.Pattern && a.URL == b.URL && a.Method == b.Method && a.Host == b.Host && a.RemoteAddr == b.RemoteAddr &&
		a.RequestURI == b.RequestURI && a.Proto == b.Proto && a.ContentLength == b.ContentLength && a.Close == b.Close &&
		a.MultipartForm == b.MultipartForm && a.TLS == b.TLS && sameBody(a.Body, b.Body) &&
		sameMap(a.Header, b.Header) && sameMap(a.Trailer, b.Trailer) && sameMap(a.Form, b.Form) && sameMap(a.PostForm, b.PostForm) &&
		samePathValues(a, b)
}

// pathValues are the indexes of the unexported fields of http.Request that hold the values of PathValue: in Go 1.26 a
// map for SetPathValue, and a pattern and a slice for ServeMux, which sets them and Request.Pattern together.
var pathValues = func() (fields []int) {
	t := reflect.TypeFor[http.Request]()
	for _, kind := range []reflect.Kind{reflect.Map, reflect.Pointer, reflect.Slice} {
		for i := range t.NumField() {
			if f := t.Field(i); !f.IsExported() && f.Type.Kind() == kind {
				fields = append(fields, i)
			}
		}
	}
	return fields
}()

// samePathValues is for requests with the same Pattern. Without one, only the map can differ: reflection takes longer
// than all other comparisons.
func samePathValues(a, b *http.Request) bool {
	fields := pathValues
	if a.Pattern == "" {
		fields = fields[:min(1, len(fields))]
	}
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for _, i := range fields {
		if x.Field(i).Pointer() != y.Field(i).Pointer() {
			return false
		}
	}
	return true
}

// sameBody reports whether a and b are the same body. Two bodies of one type that cannot be compared count as the same.
func sameBody(a, b io.ReadCloser) (same bool) {
	defer func() { same = recover() != nil || same }()
	return a == b
}

func sameMap(a, b map[string][]string) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// restored is a context that carries the decisions of before, or none if before is nil, in place of those of the context that it extends.
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

// own sets d to the decision that c itself carries. It reports false if the decision has not been made.
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

// decision sets d, which is zero, to the decisions made so far, joined: by the limiter of c and by the limiters further
// out. It reports false if there is none.
func (c *carried) decision(d *Decision) bool {
	if c == nil {
		return false
	}
	ok := c.own(d)
	further := c.before()
	if further == nil {
		return ok
	}
	var before Decision
	switch {
	case !further.decision(&before):
		return ok
	case !ok, c.receipt.isEmpty() && before.madeBy(c.receipt.limiter):
		*d = before
	default:
		*d = join(before, *d)
	}
	return true
}

// receiptsOf appends to dst the receipts of l for the request that carries c, the outermost first. It leaves out peeks.
func (c *carried) receiptsOf(l *Limiter, dst []*receipt) []*receipt {
	if c == nil {
		return dst
	}
	dst = c.before().receiptsOf(l, dst)
	var d Decision
	if c.own(&d) {
		for _, one := range d.receipts() {
			if one.limiter == l && one.stage != peeking {
				dst = append(dst, one)
			}
		}
	}
	return dst
}

// ofLimiter returns the decision of c, which has been made, joined with the earlier decisions of the same limiter for
// the request.
func (c *carried) ofLimiter() (d Decision) {
	var room [2]*receipt
	receipts := c.before().receiptsOf(c.receipt.limiter, room[:0])
	if len(receipts) == 0 || !c.receipt.isEmpty() {
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
		var known Decision
		before.decision(&known)
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
	ok = carriedBy(ctx).decision(&d)
	return d, ok
}
