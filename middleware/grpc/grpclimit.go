package grpclimit

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/call"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
)

// Unary returns an interceptor that asks l about each unary call before the next handler runs. It panics if l is nil. It
// ignores WithMessages.
func Unary(l *core.Limiter, opts ...Option) grpc.UnaryServerInterceptor {
	o := optionsOf(l, opts)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		c := newRPC(ctx, info.FullMethod, req, true)
		e := ending{err: errAborted}
		if c.isOutermost() {
			defer func() { c.response.send(e.err == nil) }()
		}
		g, err := l.Guard(c, &c.request, c)
		defer g.End()
		if err = o.admit(c.response, &g, err); err != nil {
			return nil, err
		}
		defer func() { e.settle(&g) }()
		resp, err = handler(g.Request().Context(), req)
		e.returned, e.err = true, err
		if err == nil && g.Watches() {
			e.bytes = sizeOf(resp)
		}
		return resp, err
	}
}

// Stream returns an interceptor that asks l about each stream when it opens, and settles what l holds for the stream when
// it ends. It panics if l is nil.
func Stream(l *core.Limiter, opts ...Option) grpc.StreamServerInterceptor {
	o := optionsOf(l, opts)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		s := newStream(o, ss, newRPC(ss.Context(), info.FullMethod, nil, srv != nil))
		e := ending{err: errAborted}
		if s.rpc.isOutermost() {
			defer func() { s.rpc.response.send(e.err == nil) }()
		}
		g, err := l.Guard(s.rpc, &s.rpc.request, s.rpc)
		defer g.End()
		if err = o.admit(s.rpc.response, &g, err); err != nil {
			return err
		}
		s.ctx, s.counts = g.Request().Context(), g.Watches()
		defer func() {
			e.bytes = s.bytes.Load()
			e.settle(&g)
		}()
		e.err = s.serve(func() error { return handler(srv, s) })
		e.returned = true
		return e.err
	}
}

// errAborted is the error of a handler that has not returned.
var errAborted = errors.New("the handler panicked")

// An ending is how a handler ended.
type ending struct {
	returned bool
	err      error
	bytes    int64 // of the response
}

// settle settles what g holds, if a rule needs to know how the call ended.
func (e *ending) settle(g *core.Guard) {
	if !g.Watches() {
		return
	}
	a := outcome.Answer{Returned: e.returned, Status: statusOf(e.err), Bytes: e.bytes, Written: e.bytes > 0}
	g.Settle(outcome.Of(g.Request(), a))
}

// statusOf returns the HTTP status of the code that the server sends for err.
func statusOf(err error) int {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	return call.Code(s.Code()).HTTPStatus()
}

// sizeOf returns the length of the frame of a message in bytes, before compression.
func sizeOf(message any) int64 {
	const head = 5
	if m, ok := message.(proto.Message); ok {
		return head + int64(proto.Size(m))
	}
	return head
}
