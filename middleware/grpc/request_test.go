package grpclimit_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
)

// echo is a service that admits everything.
func echo() *service {
	return &service{
		unary: func(context.Context, string) error { return nil },
		stream: func(s grpc.ServerStream) error {
			for {
				switch err := s.RecvMsg(new(wrapperspb.StringValue)); {
				case err == io.EOF:
					return nil
				case err != nil:
					return err
				}
			}
		},
	}
}

func asked(look func(*http.Request)) *core.Limiter {
	return core.Must(core.New([]core.Rule{core.PerHour(1_000_000).By(func(r *http.Request) (string, error) {
		look(r)
		return "const:all", nil
	})}))
}

// TestRequest checks the request that rules see, over TLS.
func TestRequest(t *testing.T) {
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	defer certified.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())

	type contextKey struct{}
	want := ""
	l := asked(func(r *http.Request) {
		key, err := keyfunc.RemoteIP(r)
		expect.True(t, r.Method == http.MethodPost && r.URL.Path == want && r.URL.EscapedPath() == want && r.RequestURI == want && core.RoutePattern(r) == want,
			"%s %s, %s, pattern %q, want %s", r.Method, r.URL, r.RequestURI, core.RoutePattern(r), want)
		expect.True(t, key == "ip:127.0.0.1" && err == nil && r.Host == "example.com" && r.TLS != nil &&
			r.TLS.HandshakeComplete && r.ProtoAtLeast(2, 0) && r.ContentLength == -1,
			"key %q, %v; host %q, TLS %v, %s, length %d", key, err, r.Host, r.TLS, r.Proto, r.ContentLength)
		if h := r.Header; h.Get("Content-Type") != "application/grpc" || !strings.Contains(h.Get("User-Agent"), "grpc-go") || h.Get("X-Tenant") != "acme" || len(h["X-Many"]) != 2 || h.Get("Token-Bin") != "\x00\xff" {
			t.Errorf("header %q", h)
		}
		for _, name := range []string{"authorization", "traceparent", "x-forwarded-for"} {
			expect.Equal(t, r.Header.Get(name), "the "+name, "%s", name)
		}
		for name := range r.Header {
			expect.True(t, !strings.HasPrefix(name, ":") && name != "Host" && name == http.CanonicalHeaderKey(name),
				"the header has %s", name)
		}
		body, err := io.ReadAll(r.Body)
		expect.True(t, len(body) <= 0 && err == nil, "body %q, %v", body, err)
		expect.Equal(t, r.Context().Value(contextKey{}), "user", "the context does not extend the call's")
	})
	user := func(ctx context.Context) context.Context { return context.WithValue(ctx, contextKey{}, "user") }
	address := echo().listen(t, grpc.Creds(credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0])), grpc.ChainUnaryInterceptor(
		func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return next(user(ctx), m)
		}, grpclimit.Unary(l)),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return next(srv, inContext{s, user(s.Context())})
		}, grpclimit.Stream(l)))
	conn := must.Get(grpc.Dial(address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "example.com"}))))(t)
	defer func() { _ = conn.Close() }()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-tenant", "acme", "x-many", "1", "x-many", "2", "token-bin", "\x00\xff",
		"authorization", "the authorization", "traceparent", "the traceparent", "x-forwarded-for", "the x-forwarded-for")
	want = unary
	expect.NoError(t, conn.Invoke(ctx, unary, wrapperspb.String("x"), new(emptypb.Empty)), "Invoke")
	want = stream
	_, _, err := callStream(ctx, conn)
	expect.NoError(t, err, "the call")
}

// TestMetadataIsUnchanged checks that the handler gets the metadata of the client, whatever rules do to the header, and that calls
// with the same metadata may run at the same time.
func TestMetadataIsUnchanged(t *testing.T) {
	sent := metadata.MD{":authority": {"example.com"}, "content-type": {"application/grpc"}, "x-tenant": append(make([]string, 0, 2), "acme")}
	ctx := metadata.NewIncomingContext(t.Context(), sent)
	limit := grpclimit.Unary(asked(func(r *http.Request) {
		if want := (http.Header{"Content-Type": {"application/grpc"}, "X-Tenant": {"acme"}}); !reflect.DeepEqual(r.Header, want) || r.Host != "example.com" {
			t.Errorf("header %q, want %q; host %q", r.Header, want, r.Host)
		}
		r.Header.Add("X-Tenant", "other")
		r.Header.Del("Content-Type")
		r.Header.Set("Authorization", "none")
	}))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			_, err := limit(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unary}, func(ctx context.Context, _ any) (any, error) {
				want := metadata.MD{":authority": {"example.com"}, "content-type": {"application/grpc"}, "x-tenant": {"acme"}}
				if md, _ := metadata.FromIncomingContext(ctx); !reflect.DeepEqual(md, want) || sent["x-tenant"][:2][1] != "" {
					t.Errorf("the handler gets %q, want %q", md, want)
				}
				return nil, nil
			})
			expect.NoError(t, err, "the call")
		})
	}
	wg.Wait()
}

type inContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s inContext) Context() context.Context { return s.ctx }

// TestPaths checks the path and the pattern of streams, whose method the client writes.
func TestPaths(t *testing.T) {
	for method, known := range map[string]bool{stream: true, stream[1:]: true, "/elsewhere/Stream": false, "/a%2fb/../c?d": false} {
		var path, pattern string
		l := asked(func(r *http.Request) { path, pattern = r.URL.Path, core.RoutePattern(r) })
		rule := core.PerHour(1).By(keyfunc.Const("all"))
		rule.Name, rule.Routes = "routed", []string{"POST " + stream}
		routed := core.Must(core.New([]core.Rule{rule}))
		address := echo().listen(t, grpc.ChainStreamInterceptor(grpclimit.Stream(l), grpclimit.Stream(routed)), grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil }))
		conn := dial(t, address)
		s := must.Get(conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method))(t)
		_ = s.CloseSend()
		if err := s.RecvMsg(new(emptypb.Empty)); !strings.HasPrefix(method, "/") && status.Code(err) == codes.Unimplemented {
			continue // a newer version lacks it
		}
		want := "/" + strings.TrimPrefix(method, "/")
		if path != want || (pattern == want) != known || !known && pattern != "" {
			t.Errorf("%s: path %q, pattern %q, known %v", method, path, pattern, known)
		}
		d := must.Get(routed.Take(t.Context(), core.Claim{Rule: "routed", Key: "const:all", Peek: true}))(t)
		expect.Equal(t, d.Results[0].Remaining == 0, known, "%s: %+v; the rule applies", method, d.Results)
	}
}

// TestWithoutTransport calls the interceptors with contexts that do not come from a server.
func TestWithoutTransport(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerHour(1).By(func(r *http.Request) (string, error) {
		expect.True(t, r.RemoteAddr == "" && r.Host == "" && len(r.Header) == 0, "the request is %+v", r)
		return "const:all", nil
	})}))
	call := func() error {
		_, err := grpclimit.Unary(l)(t.Context(), "message", &grpc.UnaryServerInfo{FullMethod: unary}, func(ctx context.Context, m any) (any, error) {
			return m, grpc.SetHeader(ctx, metadata.Pairs("a", "b"))
		})
		return err
	}
	err := call()
	expect.True(t, err != nil && !errors.Is(err, context.Canceled), "got %v: SetHeader needs a server", err)
	err = call()
	expect.True(t, err != nil && strings.Contains(err.Error(), "ResourceExhausted"), "the second call gets %v", err)
}

func TestMessageOf(t *testing.T) {
	var got []string
	l := asked(func(r *http.Request) {
		m, ok := grpclimit.MessageOf(r)
		if s, isString := m.(*wrapperspb.StringValue); ok && isString {
			got = append(got, s.GetValue())
		} else if ok || m != nil {
			t.Errorf("message %v, %v", m, ok)
		} else {
			got = append(got, "none")
		}
	})
	conn := echo().serve(t, []grpc.UnaryServerInterceptor{grpclimit.Unary(l)}, []grpc.StreamServerInterceptor{grpclimit.Stream(l, grpclimit.WithMessages(l))})
	must.Do(t, conn.Invoke(t.Context(), unary, wrapperspb.String("ann"), new(emptypb.Empty)))
	s := must.Get(conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, stream))(t)
	_ = s.SendMsg(wrapperspb.String("bob"))
	_ = s.CloseSend()
	_ = s.RecvMsg(new(emptypb.Empty))
	expect.Equal(t, strings.Join(got, " "), "ann none bob", "the messages")
	m, ok := grpclimit.MessageOf(httptest.NewRequest(http.MethodPost, "/", nil))
	expect.True(t, !ok, "message %v of a request of net/http", m)
}

// A legacy message has the methods of older generated code.
type legacy struct{}

func (legacy) XXX_Size() int { return 7 }

// A broken stream sends nothing.
type broken struct{ grpc.ServerStream }

func (broken) Context() context.Context { return context.Background() }
func (broken) SendMsg(any) error        { return io.ErrClosedPipe }

func TestOutcomeBytes(t *testing.T) {
	var got []int64
	l := core.Must(core.New([]core.Rule{{Key: keyfunc.Const("all"), Limits: core.MustParseLimits("9/h"), CostAfter: func(_ *http.Request, o core.Outcome) int {
		got = append(got, o.Bytes)
		return 1
	}}}))
	for _, m := range []any{wrapperspb.String("ann"), legacy{}, "not protobuf"} {
		must.Get(grpclimit.Unary(l)(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: unary}, func(context.Context, any) (any, error) { return m, nil }))(t)
	}
	must.Do(t, grpclimit.Stream(l)(nil, broken{}, &grpc.StreamServerInfo{FullMethod: stream}, func(_ any, s grpc.ServerStream) error {
		expect.Fails(t, s.SendMsg(wrapperspb.String("ann")), "SendMsg")
		return nil
	}))
	expect.Elements(t, got, []int64{5 + 5, 5 + 7, 5, 0}, "the bytes")
}

func TestInfrastructure(t *testing.T) {
	for target, want := range map[string]bool{
		"POST /grpc.health.v1.Health/Check": true, "POST /grpc.health.v1.Health/List": true, "POST /grpc.health.v1.Health/Watch": true,
		"POST /grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
		"POST /grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
		"GET /grpc.health.v1.Health/Check":                                    false, "POST /grpc.health.v1.Health/": false, "POST /grpc.health.v1.Health/../x": false,
		"POST //grpc.health.v1.Health/Check": false, "POST /grpc.health.v1.Health%2FCheck": false, "POST /grpc.health.v1.Healthy/Check": false,
		"POST /x/grpc.health.v1.Health/Check": false, "POST /": false,
	} {
		method, path, _ := strings.Cut(target, " ")
		expect.Equal(t, grpclimit.Infrastructure(httptest.NewRequest(method, path, nil)), want, "%s", target)
	}
}

func TestNilLimiter(t *testing.T) {
	for why, f := range map[string]func(){
		"Unary": func() { grpclimit.Unary(nil) }, "Stream": func() { grpclimit.Stream(nil) }, "WithMessages": func() { grpclimit.WithMessages(nil) },
	} {
		expect.Fails(t, expect.PanicOf(f), "the panic of %s(nil)", why)
	}
}

// TestRemoteAddr checks the address of each kind of peer, which must equal its String method's, or be "@" for a Unix socket,
// whatever name its peer has bound.
func TestRemoteAddr(t *testing.T) {
	for _, network := range []string{"tcp4", "tcp6", "unix"} {
		address, dialer := "127.0.0.1:0", net.Dialer{}
		switch network {
		case "tcp6":
			address = "[::1]:0"
		case "unix":
			t.Chdir(t.TempDir())
			address, dialer.LocalAddr = t.TempDir()+"/s", &net.UnixAddr{Name: "127.0.0.1:1", Net: network}
		}
		listener, err := net.Listen(network, address)
		if err != nil {
			t.Logf("SKIPPED: %v", err)
			continue
		}
		var got string
		s := grpc.NewServer(grpc.UnaryInterceptor(grpclimit.Unary(asked(func(r *http.Request) { got = r.RemoteAddr }))))
		s.RegisterService(desc, echo())
		peers := make(chan string, 1)
		go func() { _ = s.Serve(noting{listener, peers}) }()
		conn := dial(t, listener.Addr().String(), grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return dialer.Dial(network, listener.Addr().String())
		}))
		expect.NoError(t, conn.Invoke(t.Context(), unary, wrapperspb.String("x"), new(emptypb.Empty)), "Invoke")
		want := <-peers
		if network == "unix" {
			want = "@"
		}
		expect.True(t, got == want && want != "", "%s: RemoteAddr %q, want %q", network, got, want)
		s.Stop()
	}
}

// noting records the peers that it accepts.
type noting struct {
	net.Listener
	peers chan string
}

func (l noting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.peers <- c.RemoteAddr().String()
	}
	return c, err
}
