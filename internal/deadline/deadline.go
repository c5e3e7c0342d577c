// Package deadline marks contexts that end at their deadline and are never canceled. A caller with such a context can
// make a call itself that ends at the deadline, because it need not notice a cancellation in the meantime.
package deadline

import "context"

// A Context ends at its deadline and never earlier.
type Context struct{ context.Context }

// EndsAtDeadline marks c: see Alone.
func (Context) EndsAtDeadline() {}

// Of returns a context with ctx's values that ends at ctx's deadline, even if ctx is canceled before. Call cancel to
// release its timer.
func Of(ctx context.Context) (_ Context, cancel context.CancelFunc) {
	ends, own := ctx.Deadline()
	if ctx = context.WithoutCancel(ctx); !own {
		return Context{ctx}, func() {}
	}
	ctx, cancel = context.WithDeadline(ctx, ends)
	return Context{ctx}, cancel
}

// Alone reports whether nothing but its deadline, if it has one, ends ctx: whether it has a method EndsAtDeadline, or
// never ends. A context that extends such a context is not recognized, because it may be canceled.
func Alone(ctx context.Context) bool {
	_, marked := ctx.(interface{ EndsAtDeadline() })
	return marked || ctx.Done() == nil
}
