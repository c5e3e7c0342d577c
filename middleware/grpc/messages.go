package grpclimit

import (
	"cmp"
	"context"
	"net/http"
	"sync"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/core"
)

// messages decides the messages that the client of a stream sends.
type messages struct {
	*options
	limiter *core.Limiter
	stream  grpc.ServerStream
	rpc     *rpc
	request http.Request            // of each message
	cancel  context.CancelCauseFunc // ends the context of the stream

	mu    sync.Mutex  // because another goroutine may still receive when the handler returns
	last  *core.Guard // of the last message, until it has ended
	ended bool        // the handler has returned
	err   error       // of the stream, once a message was not admitted
}

// messagesKey is the key of a value in the context of a stream whose messages a limiter decides.
type messagesKey struct{ *core.Limiter }

// decide decides a message that the handler receives, and sleeps until its turn.
func (m *messages) decide(message any) error {
	var fields response
	g, err := m.limiter.Guard(messageContext{m.stream.Context(), message}, &m.request, m.rpc)
	if err != nil || !g.Admitted() {
		err = m.admit(&fields, &g, err)
	}

	m.mu.Lock()
	switch {
	case m.ended:
	case err != nil:
		m.err = err
		m.rpc.response.take() // describes the stream
		m.stream.SetTrailer(fields.take())
	default:
		m.last = &g
		m.mu.Unlock()
		return nil
	}
	m.mu.Unlock()
	g.End()
	m.cancel(err)
	return err
}

// release ends the last message, if any, and returns m.err.
func (m *messages) release(e ending) error {
	m.mu.Lock()
	g, err := m.last, m.err
	m.last = nil
	m.mu.Unlock()
	if g != nil {
		e.settle(g)
		g.End()
	}
	return err
}

// end ends the stream, whose handler ended as e says, and returns the error of the stream.
func (m *messages) end(e ending) error {
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	return cmp.Or(m.release(e), e.err)
}

// A messageContext is the context of the request that stands for a message. It hides the decisions about the stream: rules
// that have charged the stream charge each message too.
type messageContext struct {
	context.Context
	message any
}

// Value implements context.Context.
func (c messageContext) Value(key any) any {
	switch key {
	case messageKey{}:
		return c.message
	case decisionKey:
		return nil
	}
	return c.Context.Value(key)
}

// decisionKey is the key of the decisions in a context.
var decisionKey = func() any {
	p := &probe{Context: context.Background()}
	core.FromContext(p)
	return p.key
}()

// A probe is a context that records the key that it is asked for.
type probe struct {
	context.Context
	key any
}

// Value implements context.Context.
func (p *probe) Value(key any) any {
	p.key = key
	return nil
}
