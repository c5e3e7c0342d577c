package grpclimit_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
)

// The methods of the service.
const (
	unary  = "/pkg.Service/Unary"
	stream = "/pkg.Service/Stream"
)

// A service responds to each call, and to each message of a stream, with an empty message.
type service struct {
	unary  func(ctx context.Context, message string) error
	stream func(s grpc.ServerStream) error
}

// desc has the methods of a service, as generated code describes them.
var desc = &grpc.ServiceDesc{
	ServiceName: "pkg.Service",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		m := new(wrapperspb.StringValue)
		if err := decode(m); err != nil {
			return nil, err
		}
		return interceptor(ctx, m, &grpc.UnaryServerInfo{Server: srv, FullMethod: unary}, func(ctx context.Context, m any) (any, error) {
			if err := srv.(*service).unary(ctx, m.(*wrapperspb.StringValue).GetValue()); err != nil {
				return nil, err
			}
			return new(emptypb.Empty), nil
		})
	}}},
	Streams: []grpc.StreamDesc{{
		StreamName: "Stream", ClientStreams: true, ServerStreams: true,
		Handler: func(srv any, s grpc.ServerStream) error { return srv.(*service).stream(s) },
	}},
}

// serve serves s with these interceptors, the first outermost, and returns a connection to it.
func (s *service) serve(t testing.TB, us []grpc.UnaryServerInterceptor, ss []grpc.StreamServerInterceptor, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return dial(t, s.listen(t, grpc.ChainUnaryInterceptor(us...), grpc.ChainStreamInterceptor(ss...)), opts...)
}

func (s *service) listen(t testing.TB, opts ...grpc.ServerOption) string {
	t.Helper()
	server := grpc.NewServer(opts...)
	server.RegisterService(desc, s)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func dial(t testing.TB, address string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.Dial("passthrough:///"+address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	must.Do(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func errorWith(code int) error { return status.Error(codes.Code(code), "the handler's") }

func optionsOf(g adaptertest.Guard) []grpclimit.Option {
	opts := []grpclimit.Option{grpclimit.WithHeaders(g.Headers)}
	if g.Denied != nil {
		opts = append(opts, grpclimit.WithDenyHandler(func(_ context.Context, d core.Decision) error {
			g.Denied(nil, d)
			return grpclimit.Denial(d)
		}))
	}
	if g.Log != nil {
		opts = append(opts, grpclimit.WithErrorHandler(func(_ context.Context, err error) error {
			g.Log(err)
			return nil
		}))
	}
	return opts
}

// A handledCalls gets a value when the server has ended a call.
type handledCalls struct{ ended chan bool }

func (handledCalls) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (handledCalls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (handledCalls) HandleConn(context.Context, stats.ConnStats)                       {}
func (h handledCalls) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.End); ok {
		h.ended <- true
	}
}

// serveNative implements Native.Serve for unary calls, or for streams.
func serveNative(t *testing.T, streams bool, guards []adaptertest.Guard, handle func(context.Context) int) func(context.Context) adaptertest.NativeReply {
	us := []grpc.UnaryServerInterceptor{func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		defer recovered(&err)
		return next(ctx, m)
	}}
	ss := []grpc.StreamServerInterceptor{recovering}
	for _, g := range guards {
		us = append(us, grpclimit.Unary(g.Limiter, optionsOf(g)...))
		ss = append(ss, grpclimit.Stream(g.Limiter, optionsOf(g)...))
	}
	s := &service{
		unary: func(ctx context.Context, _ string) error { return errorWith(handle(ctx)) },
		stream: func(s grpc.ServerStream) error {
			if code := handle(s.Context()); code != 0 {
				return errorWith(code)
			}
			return s.SendMsg(new(emptypb.Empty))
		},
	}
	h := handledCalls{make(chan bool, 9)}
	address := s.listen(t, grpc.ChainUnaryInterceptor(us...), grpc.ChainStreamInterceptor(ss...), grpc.StatsHandler(h))
	return func(ctx context.Context) adaptertest.NativeReply {
		conn := dial(t, address)
		defer func() { _ = conn.Close() }()
		var header, trailer metadata.MD
		var err error
		if streams {
			header, trailer, err = callStream(ctx, conn)
		} else {
			err = conn.Invoke(ctx, unary, wrapperspb.String("x"), new(emptypb.Empty), grpc.Header(&header), grpc.Trailer(&trailer))
		}
		<-h.ended
		return replyOf(err, header, trailer)
	}
}

func recovering(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer recovered(&err)
	return next(srv, s)
}

func recovered(err *error) {
	if recover() != nil {
		*err = errorWith(13)
	}
}

func callStream(ctx context.Context, conn *grpc.ClientConn) (header, trailer metadata.MD, err error) {
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, stream)
	if err != nil {
		return nil, nil, err
	}
	_ = s.CloseSend() // the reply says whether the stream has ended
	for err == nil {
		err = s.RecvMsg(new(emptypb.Empty))
	}
	header, _ = s.Header()
	if err.Error() == "EOF" {
		err = nil
	}
	return header, s.Trailer(), err
}

func replyOf(err error, header, trailer metadata.MD) adaptertest.NativeReply {
	s := status.Convert(err)
	got := adaptertest.NativeReply{Code: int(s.Code()), Message: s.Message(), Header: canonical(header), Trailer: canonical(trailer)}
	got.TrailersOnly = len(got.Header) == 0 && got.Trailer.Get("Content-Type") != "" // which is in the first frame
	for _, d := range s.Proto().GetDetails() {
		got.Details = append(got.Details, strings.TrimPrefix(d.GetTypeUrl(), "type.googleapis.com/")+" "+string(d.GetValue()))
	}
	return got
}

func canonical(md metadata.MD) http.Header {
	h := make(http.Header)
	for name, values := range md {
		h[http.CanonicalHeaderKey(name)] = values
	}
	return h
}

func TestNative(t *testing.T) {
	for _, streams := range []bool{false, true} {
		t.Run(map[bool]string{false: "unary", true: "stream"}[streams], func(t *testing.T) {
			adaptertest.RunNative(t, adaptertest.Native{
				Serve: func(t *testing.T, guards []adaptertest.Guard, handle func(context.Context) int) func(context.Context) adaptertest.NativeReply {
					return serveNative(t, streams, guards, handle)
				},
				Size: 5, // an empty message
			})
		})
	}
}
