package grpclimit

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/spillgate/spillgate/core"
)

// MessageOf returns the decoded message of a call, for Cost, Match, Tier and key funcs. A unary call has its request. A
// stream has none when it opens; the requests that WithMessages decides have one each. MessageOf reports false for requests
// without a message, such as requests that no interceptor made. Do not change the message.
func MessageOf(r *http.Request) (message any, ok bool) {
	message = r.Context().Value(messageKey{})
	return message, message != nil
}

// Infrastructure reports whether r is a health check or a call of server reflection, for core.WithSkip.
func Infrastructure(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	switch r.URL.EscapedPath() {
	case "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List", "/grpc.health.v1.Health/Watch",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo":
		return true
	}
	return false
}

// An rpc is a call that an interceptor limits. It is the context of the request that the limiter decides, and the Router
// that finds its route. One allocation takes less time than several.
type rpc struct {
	context.Context
	message  any  // of a unary call
	known    bool // to the server, which may pass other calls to an UnknownServiceHandler
	request  http.Request
	url      url.URL
	response *response
	own      response // unless an interceptor further out limits the call too
	counts   bool     // bytes
	bytes    atomic.Int64
}

// newRPC returns a call with the request that net/http would make of it.
func newRPC(ctx context.Context, method string, message any, known bool) *rpc {
	// The client writes the method of a stream, and older versions of grpc-go accept it without the slash.
	if !strings.HasPrefix(method, "/") {
		method = "/" + method
	}
	c := &rpc{Context: ctx, message: message, known: known, url: url.URL{Path: method}}
	c.request = http.Request{
		Method: http.MethodPost, URL: &c.url, RequestURI: method, Proto: "HTTP/2.0", ProtoMajor: 2, Body: http.NoBody, ContentLength: -1,
	}
	r := &c.request
	r.Header, r.Host = headerOf(ctx)
	if p, ok := peer.FromContext(ctx); ok {
		r.RemoteAddr = addressOf(p.Addr)
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			state := info.State // info itself would be allocated for calls without TLS too
			r.TLS = &state
		}
	}
	if c.response, _ = ctx.Value(responseKey{}).(*response); c.response == nil {
		c.response = &c.own
		c.own.transport = grpc.ServerTransportStreamFromContext(ctx)
	}
	return c
}

// headerOf returns the metadata of a call as the header of a request, and the authority as the host.
func headerOf(ctx context.Context) (h http.Header, host string) {
	md, ok := ctx.Value(metadataKey).(metadata.MD)
	if !ok { // there is none, or a version that is not known yet keeps it elsewhere
		md, _ = metadata.FromIncomingContext(ctx)
	}
	h = make(http.Header, len(md))
	for name, values := range md {
		if name != ":authority" {
			h[canonical(name)] = values[:len(values):len(values)]
		} else if len(values) > 0 {
			host = values[0]
		}
	}
	return h, host
}

// metadataKey is grpc-go's key of the metadata in a context. FromIncomingContext may copy the metadata.
var metadataKey = keyOf(func(ctx context.Context) { metadata.FromIncomingContext(ctx) })

// keyOf returns the key that get asks a context for.
func keyOf(get func(context.Context)) any {
	p := &probe{Context: context.Background()}
	get(p)
	return p.key
}

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

// canonical returns the canonical form of the name of a field. It knows common names, because to find the form takes time.
func canonical(name string) string {
	switch name {
	case "content-type":
		return "Content-Type"
	case "user-agent":
		return "User-Agent"
	case "grpc-accept-encoding":
		return "Grpc-Accept-Encoding"
	case "authorization":
		return "Authorization"
	case "traceparent":
		return "Traceparent"
	case "x-forwarded-for":
		return "X-Forwarded-For"
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// addressOf returns a.String(), or "@" for a Unix socket, whose peer may have bound a name that looks like an address. It
// allocates less.
func addressOf(a net.Addr) string {
	tcp, _ := a.(*net.TCPAddr)
	switch p := tcp.AddrPort(); { // not valid if tcp is nil
	case p.IsValid():
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()).String()
	case a == nil:
		return ""
	case a.Network() == "unix":
		return "@"
	}
	return a.String()
}

type messageKey struct{}
type responseKey struct{}

// Value implements context.Context.
func (c *rpc) Value(key any) any {
	switch key {
	case messageKey{}:
		return c.message
	case responseKey{}:
		return c.response
	}
	return c.Context.Value(key)
}

// RoutePattern implements core.Router. The routes of a server are its methods.
func (c *rpc) RoutePattern(*http.Request) (string, error) {
	if !c.known {
		return "", nil
	}
	return c.url.Path, nil
}

// sent counts the bytes of a message before compression, if a rule needs their number.
func (c *rpc) sent(message any) {
	const head = 5 // of a frame
	if !c.counts {
		return
	}
	c.bytes.Add(head)
	switch m := message.(type) {
	case proto.Message:
		c.bytes.Add(int64(proto.Size(m)))
	case interface{ XXX_Size() int }: // generated by older versions, or by gogo
		c.bytes.Add(int64(m.XXX_Size()))
	}
}

// end ends a call that ended with err.
func (c *rpc) end(g *core.Guard, err error) {
	settle(g, err, c.bytes.Load())
	g.End()
	if c.response == &c.own {
		c.own.send(err == nil, true)
	}
}
