package grpclimit

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
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

// setRequest sets c.request to the request that net/http would make of the call.
func (c *rpc) setRequest(ctx context.Context, method string) {
	// The client writes the method of a stream, and older versions of grpc-go accept it without the slash.
	if !strings.HasPrefix(method, "/") {
		method = "/" + method
	}
	md, _ := metadata.FromIncomingContext(ctx) // a copy
	rename(md, textproto.CanonicalMIMEHeaderKey)
	c.url.Path = method
	c.request = http.Request{
		Method: http.MethodPost, URL: &c.url, RequestURI: method, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: http.Header(md), Body: http.NoBody, ContentLength: -1,
	}
	if host := md[authority]; len(host) > 0 {
		c.request.Host = host[0]
	}
	delete(md, authority)
	if p, ok := peer.FromContext(ctx); ok {
		if p.Addr != nil {
			c.request.RemoteAddr = addressOf(p.Addr)
		}
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			c.request.TLS = &info.State
		}
	}
}

const authority = ":authority"

// rename renames the keys of m.
func rename[M ~map[string][]string](m M, rename func(string) string) {
	for name, values := range m { // and perhaps keys that are new
		if now := rename(name); now != name {
			delete(m, name)
			m[now] = values
		}
	}
}

// addressOf returns a.String(). It allocates less.
func addressOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		if p := tcp.AddrPort(); p.IsValid() {
			return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()).String()
		}
	}
	return a.String()
}
