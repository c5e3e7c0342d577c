package grpclimit

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/fields"
	"github.com/spillgate/spillgate/middleware/internal/call"
	"github.com/spillgate/spillgate/middleware/internal/respond"
)

// A response sends the fields that describe the decisions, once: with the initial metadata of a call that sends some or that
// succeeds, or else in the trailer. If several interceptors limit a call, they share the outermost one's response. Handlers
// do not find it in place of the transport's stream, because grpc.SetSendCompressor works only with grpc-go's own type. So
// the fields are in the trailer too if a handler sends the initial metadata with grpc.SendHeader.
type response struct {
	transport grpc.ServerTransportStream // nil if there is none

	mu     sync.Mutex
	fields metadata.MD // to send
}

// add adds fields to send.
func (r *response) add(fields metadata.MD) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fields == nil {
		r.fields = fields
	} else {
		maps.Copy(r.fields, fields)
	}
}

// take returns the fields to send, if any.
func (r *response) take() metadata.MD {
	r.mu.Lock()
	defer r.mu.Unlock()
	fields := r.fields
	r.fields = nil
	return fields
}

// send sends the fields with the initial metadata, unless that has been sent, or else in the trailer. Until the call ends, it sends
// nothing in the trailer, because a denied message takes the fields back.
func (r *response) send(initial, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.fields) == 0 || r.transport == nil:
	case initial && r.transport.SetHeader(r.fields) == nil:
		r.fields = nil
	case ended:
		_ = r.transport.SetTrailer(r.fields) // the client may have disconnected
		r.fields = nil
	}
}

// admit sends what describes the decision of g, or failure. It returns nil if g admits its request, or else the error for the
// client.
func (c *rpc) admit(o *options, g *core.Guard, failure error) error {
	fields, err := o.respond(g, failure)
	c.response.add(fields)
	c.counts = g.Watches()
	return err
}

// gitHubNames are the names of the fields of headers.GitHub.
var gitHubNames = fields.Names{
	"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-used", "x-ratelimit-reset", "x-ratelimit-resource", "retry-after",
}

// respond returns the fields that describe the decision of g, or failure, and the error for the client. The error is nil if g
// admits its request.
func (o *options) respond(g *core.Guard, failure error) (metadata.MD, error) {
	md := make(metadata.MD)
	switch {
	case failure != nil:
		p := respond.Failure(failure)
		set(md, p.Announce)
		delete(md, "cache-control") // no trailer may have it, and net/http would log each
		return md, handled(o.fail, g, failure, p.CallStatus(), md)
	case o.headers != nil:
		set(md, func(h http.Header) { o.headers(h, g.Decision()) })
	default:
		d := g.Decision() // on the stack; other writers may keep it
		if v, ok := fields.Of(&d); ok {
			v.Set(md, &gitHubNames, fields.EpochSeconds)
		}
	}
	if g.Admitted() {
		return md, nil
	}
	d := g.Decision()
	return md, handled(o.deny, g, d, respond.CallDenial(&d), md)
}

// set sets what write sets in a header.
func set(md metadata.MD, write func(http.Header)) {
	h := make(http.Header)
	write(h)
	for name, values := range h {
		md[strings.ToLower(name)] = values
	}
}

// handled returns the error of a deny or error handler, or s if there is no handler or its error is nil. It adds the pushback to
// the fields in md.
func handled[T any](handler func(context.Context, T) error, g *core.Guard, why T, s call.Status, md metadata.MD) error {
	md["grpc-retry-pushback-ms"] = []string{s.Pushback}
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
	for _, d := range s.Details {
		p.Details = append(p.Details, &anypb.Any{TypeUrl: d.URL(), Value: d.Value})
	}
	return status.ErrorProto(p)
}
