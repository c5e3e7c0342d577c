package calls

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/must"
)

type (
	password = wrapperspb.StringValue
	empty    = emptypb.Empty
)

const right = "right"

var errWrong = errors.New("wrong password")

// The kinds of calls, which are also the names of the methods.
const (
	unary        = "Unary"
	clientStream = "ClientStream"
	serverStream = "ServerStream"
	bidi         = "Bidi"
)

var kinds = []string{unary, clientStream, serverStream, bidi}

const service = "auth.v1.Auth"

func pathOf(kind string) string { return "/" + service + "/" + kind }

// A login is a service that checks passwords. It streams a message before it reports a wrong one.
type login struct {
	ran    atomic.Int32
	served sync.WaitGroup // calls in flight: their limiter holds their cost, even if the client has the response already
}

// serve serves h, which is around the service.
func (l *login) serve(t *testing.T, h http.Handler) string {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.served.Add(1)
		defer l.served.Done()
		h.ServeHTTP(w, r)
	}))
}

func (l *login) check(p *password) bool {
	l.ran.Add(1)
	return p.GetValue() == right
}

// connect returns the handlers of connect-go for Connect, gRPC and gRPC-Web, by their paths. They read requests to the end: net/http
// resets a call that has ended before its request, and nginx may then report INTERNAL although the response has come.
func (l *login) connect() http.Handler {
	answer := func(p *password) error {
		if !l.check(p) {
			return connect.NewError(connect.CodeUnauthenticated, errWrong)
		}
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle(pathOf(unary), connect.NewUnaryHandler(pathOf(unary), func(_ context.Context, r *connect.Request[password]) (*connect.Response[empty], error) {
		return connect.NewResponse(new(empty)), answer(r.Msg)
	}, connect.WithIdempotency(connect.IdempotencyNoSideEffects)))
	mux.Handle(pathOf(clientStream), connect.NewClientStreamHandler(pathOf(clientStream), func(_ context.Context, s *connect.ClientStream[password]) (*connect.Response[empty], error) {
		p := new(password)
		for s.Receive() {
			p = s.Msg()
		}
		return connect.NewResponse(new(empty)), answer(p)
	}))
	mux.Handle(pathOf(serverStream), connect.NewServerStreamHandler(pathOf(serverStream), func(_ context.Context, r *connect.Request[password], s *connect.ServerStream[empty]) error {
		_ = s.Send(new(empty))
		return answer(r.Msg)
	}))
	mux.Handle(pathOf(bidi), connect.NewBidiStreamHandler(pathOf(bidi), func(_ context.Context, s *connect.BidiStream[password, empty]) error {
		p, err := s.Receive()
		if err != nil {
			return err
		}
		_ = s.Send(new(empty))
		for err == nil {
			_, err = s.Receive()
		}
		return answer(p)
	}))
	return mux
}

func (l *login) grpc(opts ...grpc.ServerOption) *grpc.Server {
	answer := func(p *password) error {
		if !l.check(p) {
			return status.Error(codes.Unauthenticated, errWrong.Error())
		}
		return nil
	}
	stream := func(_ any, s grpc.ServerStream) error {
		p := new(password)
		if err := s.RecvMsg(p); err != nil {
			return err
		}
		_ = s.SendMsg(new(empty))
		for s.RecvMsg(new(password)) == nil {
		}
		return answer(p)
	}
	s := grpc.NewServer(opts...)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: unary, Handler: func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			p := new(password)
			if err := decode(p); err != nil {
				return nil, err
			}
			handler := func(context.Context, any) (any, error) { return new(empty), answer(p) }
			if interceptor == nil {
				return handler(ctx, p)
			}
			return interceptor(ctx, p, &grpc.UnaryServerInfo{FullMethod: pathOf(unary)}, handler)
		}}},
		Streams: []grpc.StreamDesc{
			{StreamName: clientStream, Handler: stream, ClientStreams: true},
			{StreamName: serverStream, Handler: stream, ServerStreams: true},
			{StreamName: bidi, Handler: stream, ClientStreams: true, ServerStreams: true},
		},
	}, l)
	return s
}

// app returns an App whose routes are the methods of l. grpc-go's server serves the clients of grpc-go, unless their user
// agent names connect-go.
func (l *login) app(g apps.Guard) apps.App {
	fromConnect, fromGRPC := l.connect(), l.grpc()
	app := apps.App{Guards: []apps.Guard{g}}
	for _, kind := range kinds {
		app.Routes = append(app.Routes, apps.Route{Pattern: pathOf(kind), Handler: func(w http.ResponseWriter, r *http.Request) {
			if agent := r.UserAgent(); strings.Contains(agent, "grpc-go/") && !strings.HasPrefix(agent, "for-connect") {
				fromGRPC.ServeHTTP(w, r)
				return
			}
			fromConnect.ServeHTTP(w, r)
		}})
	}
	return app
}

// serve serves h by HTTP/1.1 and unencrypted HTTP/2, and returns its address.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
	return listener.Addr().String()
}

// A client calls a method of the service with a password. It returns an error of connect-go or of grpc-go.
type client struct {
	name string
	call func(ctx context.Context, kind, pass string) error
}

// transportOf returns a transport for HTTP/1.1 or unencrypted HTTP/2. It keeps connections: a client that disconnects before the
// handler has returned counts as failed, even if it has the whole response.
func transportOf(t *testing.T, http2 bool) *http.Transport {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func clientsOf(t *testing.T, address string) []client {
	h1, h2 := &http.Client{Transport: transportOf(t, false), Timeout: wire.Timeout}, &http.Client{Transport: transportOf(t, true), Timeout: wire.Timeout}
	return []client{
		{"Connect", connectClient(h2, address)},
		{"Connect in JSON", connectClient(h2, address, connect.WithProtoJSON(), connect.WithSendGzip())},
		{"Connect by GET", connectClient(h2, address, connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects))},
		{"Connect without gzip", connectClient(h2, address, connect.WithAcceptCompression("gzip", nil, nil))},
		{"gRPC", connectClient(h2, address, connect.WithGRPC())},
		{"gRPC-Web", connectClient(h2, address, connect.WithGRPCWeb())},
		{"gRPC-Web without gzip", connectClient(h2, address, connect.WithGRPCWeb(), connect.WithAcceptCompression("gzip", nil, nil))},
		{"Connect by HTTP/1.1", connectClient(h1, address)},
		{"gRPC-Web by HTTP/1.1", connectClient(h1, address, connect.WithGRPCWeb())},
		{"grpc-go", grpcClient(t, address)},
		{"grpc-go to connect-go", grpcClient(t, address, grpc.WithUserAgent("for-connect"))},
	}
}

func connectClient(h *http.Client, address string, opts ...connect.ClientOption) func(context.Context, string, string) error {
	return func(ctx context.Context, kind, pass string) error {
		c := connect.NewClient[password, empty](h, "http://"+address+pathOf(kind), opts...)
		p := wrapperspb.String(pass)
		switch kind {
		case unary:
			_, err := c.CallUnary(ctx, connect.NewRequest(p))
			return err
		case clientStream:
			s := c.CallClientStream(ctx)
			_ = s.Send(p) // CloseAndReceive returns why it failed
			_, err := s.CloseAndReceive()
			return err
		case serverStream:
			s, err := c.CallServerStream(ctx, connect.NewRequest(p))
			if err != nil {
				return err
			}
			defer s.Close()
			for s.Receive() {
			}
			return s.Err()
		}
		s := c.CallBidiStream(ctx)
		defer s.CloseResponse()
		_ = s.Send(p)
		_ = s.CloseRequest()
		for {
			if _, err := s.Receive(); err != nil {
				return unlessEOF(err)
			}
		}
	}
}

func grpcConn(t *testing.T, address string, opts ...grpc.DialOption) *grpc.ClientConn {
	conn := must.Get(grpc.NewClient("passthrough:///"+address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func grpcClient(t *testing.T, address string, opts ...grpc.DialOption) func(context.Context, string, string) error {
	conn := grpcConn(t, address, opts...)
	return func(ctx context.Context, kind, pass string) error {
		p := wrapperspb.String(pass)
		if kind == unary {
			return conn.Invoke(ctx, pathOf(kind), p, new(empty))
		}
		s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: kind != serverStream, ServerStreams: kind != clientStream}, pathOf(kind))
		if err != nil {
			return err
		}
		_ = s.SendMsg(p) // RecvMsg returns why it failed
		_ = s.CloseSend()
		for {
			if err := s.RecvMsg(new(empty)); err != nil || kind == clientStream {
				return unlessEOF(err)
			}
		}
	}
}

// can reports whether c is another client for this kind of calls: only HTTP/2 has bidirectional streams, and only unary calls
// are sent by GET.
func (c client) can(kind string) bool {
	return (kind != bidi || !strings.HasSuffix(c.name, "HTTP/1.1")) && (kind == unary || !strings.HasSuffix(c.name, "GET"))
}

// codeOf returns the code of an error of connect-go or grpc-go, whose numbers are the same.
func codeOf(err error) codes.Code {
	var c *connect.Error
	if errors.As(err, &c) {
		return codes.Code(c.Code())
	}
	return status.Code(err)
}

// within calls within the time that bounds tests.
func (c client) within(t *testing.T, kind, pass string) error {
	ctx, cancel := context.WithTimeout(t.Context(), wire.Timeout)
	defer cancel()
	return c.call(ctx, kind, pass)
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
