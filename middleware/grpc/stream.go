package grpclimit

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// A stream is the stream that the handler gets.
type stream struct {
	grpc.ServerStream
	ctx      context.Context
	rpc      *rpc
	counts   bool // bytes
	bytes    atomic.Int64
	messages *messages // nil if their number is not limited
}

func newStream(o *options, ss grpc.ServerStream, c *rpc) *stream {
	s := &stream{ServerStream: ss, rpc: c}
	if o.messages != nil && ss.Context().Value(messagesKey{o.messages}) == nil {
		s.messages = &messages{options: o, limiter: o.messages, stream: ss, rpc: c, request: c.request}
	}
	return s
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

// SendHeader implements grpc.ServerStream.
func (s *stream) SendHeader(md metadata.MD) error {
	s.rpc.response.send(true)
	return s.ServerStream.SendHeader(md)
}

// SendMsg implements grpc.ServerStream. The first message follows the initial metadata.
func (s *stream) SendMsg(m any) error {
	s.rpc.response.send(true)
	err := s.ServerStream.SendMsg(m)
	if err == nil && s.counts {
		s.bytes.Add(sizeOf(m))
	}
	return err
}

// serve runs the handler and returns the error of the stream.
func (s *stream) serve(handler func() error) (err error) {
	m := s.messages
	if m == nil {
		return handler()
	}
	s.ctx, m.cancel = context.WithCancelCause(context.WithValue(s.ctx, messagesKey{m.limiter}, true))
	defer m.cancel(nil)
	e := ending{err: errAborted}
	defer func() { err = m.end(e) }()
	e.err = handler()
	e.returned = true
	return nil
}

// RecvMsg implements grpc.ServerStream.
func (s *stream) RecvMsg(m any) error {
	if s.messages == nil {
		return s.ServerStream.RecvMsg(m)
	}
	if err := s.messages.release(ending{returned: true}); err != nil {
		return err
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.messages.decide(m)
}
