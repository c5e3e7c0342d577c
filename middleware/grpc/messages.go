package grpclimit

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/spillgate/spillgate/core"
)

// A stream is the stream that the handler gets.
type stream struct {
	grpc.ServerStream
	ctx context.Context
	rpc *rpc
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

// SendHeader implements grpc.ServerStream.
func (s *stream) SendHeader(md metadata.MD) error {
	s.rpc.response.send(true, false)
	return s.ServerStream.SendHeader(md)
}

// SendMsg implements grpc.ServerStream. The first message follows the initial metadata.
func (s *stream) SendMsg(m any) error {
	s.rpc.response.send(true, false)
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.rpc.sent(m)
	}
	return err
}

// messages is a stream that decides the messages that its client sends.
type messages struct {
	stream
	*options
	request http.Request            // of each message
	cancel  context.CancelCauseFunc // ends the context of the stream

	mu    sync.Mutex  // because another goroutine may still receive when the handler returns
	last  *core.Guard // of the last message, until it has ended
	ended bool        // the handler has returned
	err   error       // of the stream, once a message was not admitted
}

// messagesKey is the key of a value in the context of a stream whose messages a limiter decides.
type messagesKey struct{ *core.Limiter }

func newMessages(s stream, o *options) *messages {
	m := &messages{stream: s, options: o, request: s.rpc.request}
	m.ctx, m.cancel = context.WithCancelCause(context.WithValue(s.ctx, messagesKey{o.messages}, true))
	return m
}

// RecvMsg implements grpc.ServerStream. It sleeps until the message's turn.
func (m *messages) RecvMsg(message any) error {
	if err := m.release(nil); err != nil {
		return err
	}
	if err := m.stream.RecvMsg(message); err != nil {
		return err
	}
	// Rules that have charged the stream charge each message too.
	ctx := context.WithValue(core.WithoutDecision(m.ServerStream.Context()), messageKey{}, message)
	g, err := m.messages.Guard(ctx, &m.request, m.rpc)
	var fields metadata.MD
	if err != nil || !g.Admitted() {
		fields, err = m.respond(&g, err)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.ended:
	case err != nil:
		m.err = err
		m.rpc.response.take() // describes the stream
		m.SetTrailer(fields)
	default:
		m.last = &g
		return nil
	}
	g.End()
	m.cancel(err)
	return err
}

// release ends the last message, if any, whose stream ended with err or goes on. It returns m.err.
func (m *messages) release(err error) error {
	m.mu.Lock()
	g, failure := m.last, m.err
	m.last = nil
	m.mu.Unlock()
	if g != nil {
		settle(g, err, 0)
		g.End()
	}
	return failure
}

// end ends the stream, whose handler ended with err, and returns the error of the stream.
func (m *messages) end(err error) error {
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	defer m.cancel(nil)
	if failure := m.release(err); failure != nil && !errors.Is(err, errAborted) { // the outcome of the stream has the panic
		return failure
	}
	return err
}
