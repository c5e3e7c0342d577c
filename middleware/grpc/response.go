package grpclimit

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/internal/call"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// A response sends the fields that describe the decisions, once: with the initial metadata of a call that sends some or that
// succeeds, or else in the trailer. If several interceptors limit a call, they share the outermost one's response. Handlers
// find it in place of the transport's stream, because they may send initial metadata with grpc.SendHeader.
type response struct {
	grpc.ServerTransportStream

	mu     sync.Mutex
	fields http.Header // to send
}

// describe sets the fields that w writes, and those of a status, if the call is not admitted.
func (r *response) describe(w headers.Writer, d core.Decision, s *call.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fields == nil {
		r.fields = make(http.Header)
	}
	w(r.fields, d)
	if s != nil {
		respond.NoStore(r.fields)
		r.fields.Set("Grpc-Retry-Pushback-Ms", s.Pushback)
	}
}

// take returns the fields to send, if any.
func (r *response) take() metadata.MD {
	r.mu.Lock()
	defer r.mu.Unlock()
	md := metadata.MD(r.fields)
	rename(md, lower)
	r.fields = nil
	return md
}

// lowered are the names of usual fields in lower case, because strings.ToLower allocates.
var lowered = func() map[string]string {
	m := make(map[string]string)
	for _, name := range headers.Expose {
		m[http.CanonicalHeaderKey(name)] = strings.ToLower(name)
	}
	return m
}()

func lower(name string) string {
	if l, ok := lowered[name]; ok {
		return l
	}
	return strings.ToLower(name)
}

// SendHeader implements grpc.ServerTransportStream.
func (r *response) SendHeader(md metadata.MD) error {
	r.send(true)
	return r.ServerTransportStream.SendHeader(md)
}

// send sends the fields with the initial metadata, or else in the trailer.
func (r *response) send(initial bool) {
	switch md := r.take(); {
	case r.ServerTransportStream == nil:
	case initial:
		_ = r.SetHeader(md) // the client may have disconnected
	default:
		_ = r.SetTrailer(md)
	}
}

// admit describes the decision of g, or err, in w. It returns nil if g admits its request, or else the error for the client.
func (o *options) admit(w *response, g *core.Guard, err error) error {
	d := g.Decision()
	switch {
	case err != nil:
		s := respond.CallFailure(err)
		w.describe(func(h http.Header, _ core.Decision) { respond.Failure(err).Announce(h) }, d, &s)
		return handled(o.fail, g, err, s)
	case g.Admitted():
		w.describe(o.headers, d, nil)
		return nil
	default:
		s := respond.CallDenial(&d)
		w.describe(o.headers, d, &s)
		return handled(o.deny, g, d, s)
	}
}

// handled returns the error of a deny or error handler, or s if there is no handler or its error is nil.
func handled[T any](handler func(context.Context, T) error, g *core.Guard, why T, s call.Status) error {
	if handler != nil {
		if err := handler(g.Request().Context(), why); err != nil {
			return err
		}
	}
	return errorOf(s)
}

// Denial returns the default error for a call that d denies: RESOURCE_EXHAUSTED with the names of the rules in a
// google.rpc.QuotaFailure and, if waiting helps, the wait in a google.rpc.RetryInfo. It is for deny handlers that add to it.
func Denial(d core.Decision) error { return errorOf(respond.CallDenial(&d)) }

func errorOf(s call.Status) error {
	p := status.New(codes.Code(s.Code), s.Message).Proto()
	if err := proto.Unmarshal(s.Proto(), p); err != nil {
		return status.Error(codes.Code(s.Code), s.Message) // without details
	}
	return status.ErrorProto(p)
}
