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
	outer, _ := ss.Context().Value(messagesKey{}).(*messages)
	if o.messages != nil && !outer.by(o.messages) {
		s.messages = &messages{options: o, limiter: o.messages, outer: outer, stream: ss, rpc: c, request: c.request}
	}
	return s
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

// SendHeader implements grpc.ServerStream.
func (s *stream) SendHeader(md metadata.MD) error {
	s.respond(true)
	return s.ServerStream.SendHeader(md)
}

// SendMsg implements grpc.ServerStream. The first message follows the initial metadata.
func (s *stream) SendMsg(m any) error {
	s.respond(true)
	err := s.ServerStream.SendMsg(m)
	if err == nil && s.counts {
		s.bytes.Add(sizeOf(m))
	}
	return err
}

// respond sends the fields that have not been sent with the initial metadata, or in the trailer.
func (s *stream) respond(initial bool) {
	switch md := s.rpc.response.take(); {
	case md == nil:
	case initial:
		_ = s.SetHeader(md) // the client may have disconnected
	default:
		s.SetTrailer(md)
	}
}

// serve runs the handler and returns the error of the stream.
func (s *stream) serve(handler func() error) (err error) {
	m := s.messages
	if m == nil {
		return handler()
	}
	s.ctx, m.cancel = context.WithCancelCause(context.WithValue(s.ctx, messagesKey{}, m))
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
