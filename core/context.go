package core

import (
	"context"
	"slices"
)

type contextKey struct{}

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
	case !ok, c.receipt.isEmpty() && slices.ContainsFunc(before.receipts(), func(o *receipt) bool { return o.limiter == c.receipt.limiter }):
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
