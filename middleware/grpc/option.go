package grpclimit

import (
	"context"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/internal/option"
)

// An Option changes how an interceptor responds. A nil argument means the default, except for WithMessages.
type Option func(*options)

type options struct {
	headers  headers.Writer
	messages *core.Limiter
	deny     func(context.Context, core.Decision) error
	fail     func(context.Context, error) error
}

// WithHeaders chooses the fields that describe the decision. The default is headers.GitHub. They are sent as initial
// metadata, or in the trailer if the handler calls grpc.SendHeader. If a call ends with an error before its initial metadata has
// been sent, as each denied call does, they are sent in the trailer, because clients retry no call that had initial metadata.
func WithHeaders(w headers.Writer) Option {
	return func(o *options) { o.headers = w }
}

// WithMessages is for Stream: l decides each message that the client sends, after the handler has called RecvMsg for it
// and before RecvMsg returns. Key funcs, Match, Cost and Tier find the message with MessageOf. l may be the limiter of the
// stream: it then charges the stream when it opens, and each message.
//
// Under a rule with MaxWait, RecvMsg sleeps until the message's turn. Until then the handler does not read the next message,
// and the flow control of HTTP/2 stops the client: the client is slowed down, but not denied.
//
// If l denies a message or cannot decide it, RecvMsg returns the error for the client, the context of the stream ends, and
// the stream ends with this error, whatever the handler returns. A message with a limit of requests in flight or a CostAfter
// is held until the handler calls RecvMsg again, or until the stream ends. Its Outcome.Status is 200 or, if the stream has
// ended, the status of the stream. WithMessages panics if l is nil.
func WithMessages(l *core.Limiter) Option {
	mustLimit(l)
	return func(o *options) { o.messages = l }
}

// WithDenyHandler uses deny to end denied calls with the error that it returns, or with Denial(d) if that is nil. The trailer
// already has the fields that describe d, and grpc-retry-pushback-ms. ctx carries d.
func WithDenyHandler(deny func(ctx context.Context, d core.Decision) error) Option {
	return func(o *options) { o.deny = deny }
}

// WithErrorHandler uses fail to end calls that could not be decided with the error that it returns, or with the default
// status if that is nil: see core.Limiter.Check for the errors. To log err and send the default, return nil. Do not return err
// itself, because clients would get its text.
func WithErrorHandler(fail func(ctx context.Context, err error) error) Option {
	return func(o *options) { o.fail = fail }
}

func optionsOf(l *core.Limiter, opts []Option) *options {
	mustLimit(l)
	o := new(options)
	option.Apply(o, opts)
	return o
}

func mustLimit(l *core.Limiter) {
	if l == nil {
		panic("spillgate: the limiter is nil; want one that core.New returned")
	}
}
