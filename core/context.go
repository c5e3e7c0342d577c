package core

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"slices"
)

type contextKey struct{}

// carried is a context that carries the decision of one limiter. The context that it extends may carry decisions of others.
type carried struct {
	context.Context
	router  Router  // nil if no adapter is involved
	receipt receipt // of what Guard decides
}

// guarded is a copy of a request, which callbacks and handlers get, and its context: one allocation takes less time than two. It
// is 512 bytes long: above that, the runtime takes longer for each.
type guarded struct {
	request http.Request
	carried
}

// copyOf sets g to a copy of r for l to decide about. Its context extends ctx. A chunked HTTP/1 body writes its trailers to the
// request that the server made, which r may be: it adds them to a map that is there already, so the copy gets them through a map
// that both share.
func (g *guarded) copyOf(r *http.Request, ctx context.Context, l *Limiter, router Router) {
	g.Context, g.router = ctx, router
	g.receipt.limiter, g.receipt.nested = l, carriedBy(ctx) != nil
	if r.Trailer == nil && r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		r.Trailer = make(http.Header)
	}
	g.request = *r.WithContext(&g.carried)
}

// restore makes r, which g is a copy of, what it would be without the limiter: it takes over what has been changed in the copy. If
// nothing has changed, it writes nothing, because others may be reading r.
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

// sameFields reports whether two copies of a request still have the same fields. It leaves out what only the requests of clients
// have.
func sameFields(a, b *http.Request) bool {
	return a.Pattern == b.Pattern && a.URL == b.URL && a.Method == b.Method && a.Host == b.Host && a.RemoteAddr == b.RemoteAddr &&
		a.RequestURI == b.RequestURI && a.Proto == b.Proto && a.ContentLength == b.ContentLength && a.Close == b.Close &&
		a.MultipartForm == b.MultipartForm && a.TLS == b.TLS && sameBody(a.Body, b.Body) &&
		sameMap(a.Header, b.Header) && sameMap(a.Trailer, b.Trailer) && sameMap(a.Form, b.Form) && sameMap(a.PostForm, b.PostForm) &&
		samePathValues(a, b)
}

// pathValues are the fields in which a request keeps the values of PathValue, in Go 1.26 a pattern, a slice and a map.
var pathValues = func() (fields []int) {
	t := reflect.TypeFor[http.Request]()
	for i := range t.NumField() {
		f, holds := t.Field(i), []reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}
		if !f.IsExported() && slices.Contains(holds, f.Type.Kind()) {
			fields = append(fields, i)
		}
	}
	return fields
}()

func samePathValues(a, b *http.Request) bool {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for _, i := range pathValues {
		if x.Field(i).Pointer() != y.Field(i).Pointer() {
			return false
		}
	}
	return true
}

// sameBody reports whether a and b are the same body, or of one type that cannot be compared.
func sameBody(a, b io.ReadCloser) (same bool) {
	defer func() { same = recover() != nil || same }()
	return a == b
}

func sameMap[M ~map[string][]string](a, b M) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// restored is the context that a handler has put in place of ours, without the decision of the limiter.
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
	case !ok, c.receipt.isEmpty() && before.madeBy(c.receipt.limiter):
		return before, true
	}
	return join(before, own), true
}

// receiptsOf appends to dst what l has decided for the request that carries c, the outermost first. A peek is no decision.
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

// ofLimiter returns the decision of c, which is made, joined with those that its limiter made for the request before.
func (c *carried) ofLimiter() (d Decision) {
	var room [2]*receipt
	receipts := c.before().receiptsOf(c.receipt.limiter, room[:0])
	if len(receipts) == 0 || !c.receipt.isEmpty() {
		receipts = append(receipts, &c.receipt)
	}
	return decisionOf(receipts)
}

// NewContext is for adapters that do not use Guard. It returns a context that carries d. If ctx already carries decisions,
// they are joined with d: the request is allowed if all allow it, and At is the instant of the tightest result. A decision
// that ctx already carries is not added twice.
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

// FromContext returns the decision that ctx carries: the joint decision of all limiters that guard the request.
func FromContext(ctx context.Context) (Decision, bool) {
	return carriedBy(ctx).decision()
}
