package grpclimit

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/call"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
)

// Unary returns an interceptor that asks l about each unary call before the next handler runs. It panics if l or an option is nil. It
// ignores WithMessages.
func Unary(l *core.Limiter, opts ...Option) grpc.UnaryServerInterceptor {
	o := optionsOf(l, opts)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		c := newRPC(ctx, info.FullMethod, req, true)
		g, failure := l.Guard(c, &c.request, c)
		err = errAborted // unless the handler returns
		defer func() {
			if err == nil {
				c.sent(resp)
			}
			c.end(&g, err)
		}()
		if err := c.admit(o, &g, failure); err != nil {
			return nil, err
		}
		return handler(g.Request().Context(), req)
	}
}

// Stream returns an interceptor that asks l about each stream when it opens, and settles what l holds for the stream when
// it ends. It panics if l or an option is nil.
func Stream(l *core.Limiter, opts ...Option) grpc.StreamServerInterceptor {
	o := optionsOf(l, opts)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		c := newRPC(ss.Context(), info.FullMethod, nil, srv != nil)
		g, failure := l.Guard(c, &c.request, c)
		err = errAborted // unless the handler returns
		defer func() { c.end(&g, err) }()
		if err := c.admit(o, &g, failure); err != nil {
			return err
		}
		s := stream{ss, g.Request().Context(), c}
		if o.messages == nil || s.ctx.Value(messagesKey{o.messages}) != nil {
			return handler(srv, &s)
		}
		m := newMessages(s, o)
		defer func() { err = m.end(err) }()
		return handler(srv, m)
	}
}

// errAborted is the error of a handler that has not returned.
var errAborted = errors.New("the handler panicked")

// settle settles what g holds, if a rule needs to know that the call ended with err, after a response of so many bytes.
func settle(g *core.Guard, err error, bytes int64) {
	if !g.Watches() {
		return
	}
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err) // as the server does
	}
	g.Settle(outcome.Of(g.Request(), outcome.Answer{
		Returned: !errors.Is(err, errAborted), Written: bytes > 0, Status: call.Code(s.Code()).HTTPStatus(), Bytes: bytes,
	}))
}
