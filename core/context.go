package core

import (
	"context"
	"slices"
)

// contextKey{} is the key of what carriedBy returns.
type contextKey struct{}

// before returns the context that carries the decision of the next limiter further out, or nil.
func (c *carried) before() *carried {
	if !c.receipt.nested {
		return nil
	}
	return carriedBy(c.Context)
}

// decisions returns the decisions that c and the contexts further out carry, the outermost first. It leaves out a
// decision that adds nothing to an earlier one of the same limiter.
func (c *carried) decisions() (all []Decision) {
	if c == nil {
		return nil
	}
	all = c.before().decisions()
	own := &c.receipt
	again := func(d Decision) bool {
		return slices.ContainsFunc(d.receipts(), func(o *receipt) bool { return o.limiter == own.limiter })
	}
	switch {
	case own.extra != nil && own.extra.added != nil:
		all = append(all, *own.extra.added)
	case own.stage == decided && (!own.isEmpty() || !slices.ContainsFunc(all, again)):
		all = append(all, own.view(new([1]Result)))
	}
	return all
}

// receiptsOf returns the receipts of l for the request that carries c, the outermost first. It leaves out peeks.
func (c *carried) receiptsOf(l *Limiter) (receipts []*receipt) {
	for _, d := range c.decisions() {
		for _, one := range d.receipts() {
			if one.limiter == l && one.stage != peeking {
				receipts = append(receipts, one)
			}
		}
	}
	return receipts
}

// ofLimiter returns the decision of c, which has been made, joined with the earlier decisions of the same limiter for
// the request. room is for the result of c, if there are none.
func (c *carried) ofLimiter(room *[1]Result) Decision {
	if !c.receipt.nested {
		return c.receipt.view(room)
	}
	receipts := c.before().receiptsOf(c.receipt.limiter)
	if len(receipts) == 0 || !c.receipt.isEmpty() {
		receipts = append(receipts, &c.receipt)
	}
	return decisionOf(receipts)
}

// NewContext is for adapters that do not use Guard. It returns a context that carries d. If ctx already carries
// decisions, NewContext joins d with them: the request is allowed if all allow it, and At is the instant of the tightest
// result or, for a denial, of the result that RetryAfter counts from. A decision that ctx already carries is not added again.
func NewContext(ctx context.Context, d Decision) context.Context {
	before := carriedBy(ctx)
	if made := d.receipts(); before != nil && len(made) > 0 {
		known, _ := FromContext(ctx)
		added := slices.DeleteFunc(slices.Clone(made), func(c *receipt) bool { return slices.Contains(known.receipts(), c) })
		if len(added) == 0 {
			return ctx
		}
		if len(added) < len(made) {
			d = decisionOf(added)
		}
	}
	c := &carried{Context: ctx}
	c.receipt.nested, c.receipt.extra = before != nil, &extra{added: &d}
	return c
}

// WithoutDecision is for adapters that may get the context of another request, such as the one that opened a session, or
// a batch. It returns a context with the values and the deadline of ctx, but without the decisions that ctx carries, so that all
// rules apply to the request again.
func WithoutDecision(ctx context.Context) context.Context {
	if carriedBy(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, (*carried)(nil))
}

// FromContext returns the decision that ctx carries, joined from the decisions of all limiters that guard the request.
// It reports false if there is none.
func FromContext(ctx context.Context) (d Decision, ok bool) {
	for i, one := range carriedBy(ctx).decisions() {
		if ok = true; i == 0 {
			d = one
		} else {
			d = join(d, one)
		}
	}
	return d, ok
}
