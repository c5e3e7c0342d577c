package calls

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/rulefile"
	"github.com/spillgate/spillgate/telemetry"
)

// native serves the service by a server of grpc-go, limited by interceptors, and returns the address.
func (l *login) native(t *testing.T, limiter *core.Limiter, opts ...grpclimit.Option) string {
	t.Helper()
	return listen(t, l.grpc(grpc.ChainUnaryInterceptor(grpclimit.Unary(limiter, opts...)), grpc.ChainStreamInterceptor(grpclimit.Stream(limiter, opts...))))
}

func listen(t *testing.T, s *grpc.Server) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	return listener.Addr().String()
}

// A serving serves the service behind a limiter: by an adapter for HTTP, or by grpc-go with interceptors.
type serving struct {
	name  string
	serve func(t *testing.T, l *login, g apps.Guard) (address string)
}

func servings() (all []serving) {
	for _, f := range apps.Frameworks {
		all = append(all, serving{f.Name, func(t *testing.T, l *login, g apps.Guard) string { return l.serve(t, f.Build(l.app(g))) }})
	}
	return append(all, serving{"grpclimit", func(t *testing.T, l *login, g apps.Guard) string {
		return l.native(t, g.Limiter, grpclimit.WithHeaders(g.Headers))
	}})
}

// clients returns the clients that can call a new server of s, and their kinds of calls.
func (s serving) clients(t *testing.T, l *login, g apps.Guard) (some []client) {
	for _, c := range clientsOf(t, s.serve(t, l, g)) {
		if s.name != "grpclimit" || c.name == "grpc-go" || strings.HasPrefix(c.name, "gRPC") && !strings.Contains(c.name, "Web") {
			some = append(some, c)
		}
	}
	return some
}

// childOf is the environment variable that makes the test binary another process: it has the kind of server and the Redis.
const childOf = "SPILLGATE_E2E_CALLS"

func TestMain(m *testing.M) {
	if text := os.Getenv(childOf); text != "" {
		kind, redisAddr, _ := strings.Cut(text, " ")
		if err := serveChild(kind, redisAddr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redistest.DropLog()
	os.Exit(m.Run())
}

// sharedLimit is a limit that gives nothing back during a test.
const sharedLimit = 1000

// serveChild serves until its standard input ends. It prints its address.
func serveChild(kind, redisAddr string) error {
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer rdb.Close()
	rule := core.Every(sharedLimit, 365*24*time.Hour).By(keyfunc.RemoteIP)
	rule.Routes, rule.OnFailure = []string{"POST " + pathOf(unary)}, core.FailClosed
	limiter := core.Must(core.New([]core.Rule{rule}, core.WithStore(redisstore.New(rdb)), core.WithTimeout(wire.Timeout)))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	l := new(login)
	if kind == "grpc" {
		go l.grpc(grpc.ChainUnaryInterceptor(grpclimit.Unary(limiter))).Serve(listener)
	} else {
		s := &http.Server{Handler: apps.Frameworks[0].Build(l.app(apps.Guard{Limiter: limiter})), Protocols: new(http.Protocols)}
		s.Protocols.SetHTTP1(true)
		s.Protocols.SetUnencryptedHTTP2(true)
		go s.Serve(listener)
	}
	fmt.Println(listener.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// TestFourProcesses calls two servers of HTTP and two of gRPC that share a Redis.
func TestFourProcesses(t *testing.T) {
	const calls, workers = 10_000, 16
	server := redistest.Start(t)
	var all []client
	for _, kind := range []string{"http", "http", "grpc", "grpc"} {
		address, _ := wire.Child(t, childOf+"="+kind+" "+server.Addr)
		if kind == "grpc" {
			all = append(all, client{"grpc-go", grpcClient(t, address)})
			continue
		}
		all = append(all, clientsOf(t, address)[0])
	}
	var next, admitted atomic.Int32
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := next.Add(1); i <= calls; i = next.Add(1) {
				if err := all[i%4].within(t, unary, right); err == nil {
					admitted.Add(1)
				} else if codeOf(err) != codes.ResourceExhausted {
					t.Errorf("call %d: %v", i, err)
				}
			}
		})
	}
	group.Wait()
	expect.Equal(t, admitted.Load(), sharedLimit, "calls admitted")
}

// TestNativeMessages sends messages faster than a limit: all arrive, at the rate of the limit, and the server does not buffer them.
func TestNativeMessages(t *testing.T) {
	const messages, rate, size = 1000, 500, 16 << 10
	rule := core.PerSecond(rate).WithBurst(1).By(keyfunc.Const("all"))
	rule.MaxWait = time.Minute
	limiter := core.Must(core.New([]core.Rule{core.PerHour(1000).By(keyfunc.Const("all"))}))
	got, heap := 0, uint64(0)
	var before, now runtime.MemStats
	handler := func(_ any, s grpc.ServerStream) error {
		for {
			if err := s.RecvMsg(new(password)); err == io.EOF {
				return s.SendMsg(new(empty))
			} else if err != nil {
				return err
			}
			if got++; got%100 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				heap = max(heap, now.HeapAlloc)
			}
		}
	}
	listener := bufconn.Listen(1 << 16)
	s := grpc.NewServer(grpc.ChainStreamInterceptor(grpclimit.Stream(limiter, grpclimit.WithMessages(core.Must(core.New([]core.Rule{rule}))))))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{StreamName: clientStream, Handler: handler, ClientStreams: true}}}, nil)
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	conn := grpcConn(t, "buffer", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	ctx, cancel := context.WithTimeout(t.Context(), 2*wire.Timeout)
	defer cancel()
	runtime.GC()
	runtime.ReadMemStats(&before)
	begun := time.Now()
	c := must.Get(conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, pathOf(clientStream)))(t)
	m := wrapperspb.String(strings.Repeat("x", size))
	for range messages {
		must.Do(t, c.SendMsg(m))
	}
	_ = c.CloseSend()
	err := c.RecvMsg(new(empty))
	if took := time.Since(begun); err != nil || got != messages || took < (messages-1)*time.Second/rate {
		t.Errorf("%d messages in %v, %v; want %d at %d per second", got, took, err, messages, rate)
	}
	expect.AtMost(t, int64(heap)-int64(before.HeapAlloc), messages*size/4, "bytes by which the heap grew")
}

// TestRulesOfBothProtocols limits a route of HTTP and a method of gRPC by one file, over one Redis.
func TestRulesOfBothProtocols(t *testing.T) {
	file, err := rulefile.Parse([]byte(`
rules:
  - name: login
    match: [POST /login, POST /auth.v1.Auth/Unary]
    key: ip
    limits: 5/h
    cost_after: failures
`), rulefile.Funcs{})
	must.Do(t, err)
	server := redistest.Start(t)
	counts := telemetry.New(telemetry.Options{})
	limiterOf := func() *core.Limiter {
		rdb := redistest.NewClient(t, &redis.Options{Addr: server.Addr})
		return core.Must(core.New(file.Rules, core.WithStore(redisstore.New(rdb)), core.WithObserver(counts.Observe), core.WithTimeout(wire.Timeout)))
	}
	l := new(login)
	call := client{"grpc-go", grpcClient(t, l.native(t, limiterOf()))}
	site := "http://" + serve(t, stdlib.New(limiterOf())(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		l.ran.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	})))
	for i := range 20 {
		var denied bool
		if i%2 == 0 {
			denied = codeOf(call.within(t, unary, "wrong")) == codes.ResourceExhausted
		} else {
			r := wire.Send(t, http.DefaultClient, wire.Request(t, http.MethodPost, site+"/login", nil))
			denied = r.StatusCode == http.StatusTooManyRequests
		}
		expect.Equal(t, denied, i >= 5, "guess %d: denied", i+1)
	}
	expect.NoError(t, call.within(t, bidi, right), "a method without a rule")
	expect.Equal(t, l.ran.Load(), 6, "how often the handlers ran (5 and once)")
	for _, r := range counts.Snapshot().Rules {
		want := map[string]uint64{"allowed": 5, "denied": 15}[r.Outcome]
		expect.True(t, r.Rule == "login" && r.Count == want, "telemetry has %+v, want %d", r, want)
	}
	for path, want := range map[string]string{"/login": "yes", pathOf(unary): "yes", pathOf(bidi): "no"} {
		all := must.Get(file.Explain(wire.Request(t, http.MethodPost, site+path, nil)))(t)
		expect.Equal(t, all[0].Applies, want, "%s: %+v", path, all)
	}
}

// TestLoginRecipe guesses passwords by both protocols.
func TestLoginRecipe(t *testing.T) {
	site, calls, err := bothLogins(keyfunc.RemoteIP, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	must.Do(t, err)
	calls.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{StreamName: "Login", ServerStreams: true,
		Handler: func(any, grpc.ServerStream) error { return status.Error(codes.Unauthenticated, "no") }}}}, nil)
	conn, url := grpcConn(t, listen(t, calls)), "http://"+serve(t, site)+"/login"
	for i := range 10 {
		var denied bool
		if i%2 == 0 {
			s := must.Get(conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/auth.v1.Auth/Login"))(t)
			_ = s.CloseSend()
			denied = codeOf(s.RecvMsg(new(empty))) == codes.ResourceExhausted
		} else {
			denied = wire.Send(t, http.DefaultClient, wire.Request(t, http.MethodPost, url, nil)).StatusCode == http.StatusTooManyRequests
		}
		expect.Equal(t, denied, i >= 5, "guess %d: denied", i+1)
	}
}

// TestMessagesRecipe sends more messages than a burst admits.
func TestMessagesRecipe(t *testing.T) {
	s := must.Get(ingest(keyfunc.RemoteIP))(t)
	l := new(login)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{StreamName: clientStream, ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			for s.RecvMsg(new(password)) == nil {
				l.ran.Add(1)
			}
			return s.SendMsg(new(empty))
		}}}}, nil)
	address := listen(t, s)
	begun := time.Now()
	c := must.Get(grpcConn(t, address).NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, pathOf(clientStream)))(t)
	for range 150 {
		_ = c.SendMsg(wrapperspb.String(right))
	}
	_ = c.CloseSend()
	if err := c.RecvMsg(new(empty)); err != nil || l.ran.Load() != 150 || time.Since(begun) < 490*time.Millisecond {
		t.Errorf("%d messages in %v, %v", l.ran.Load(), time.Since(begun), err)
	}
}

// TestObedientRecipe calls a server from a client that knows no limit: after one denial, it waits.
func TestObedientRecipe(t *testing.T) {
	var denied atomic.Int32
	l := new(login)
	address := l.native(t, core.Must(core.New([]core.Rule{core.PerSecond(4).WithBurst(1).By(keyfunc.RemoteIP)})), grpclimit.WithDenyHandler(func(context.Context, core.Decision) error {
		denied.Add(1)
		return nil
	}))
	own := core.Must(core.New([]core.Rule{{Name: "upstream", Limits: []core.Limit{core.PerSecond(1000)}, MaxWait: time.Minute}}))
	call := client{"obedient", grpcClient(t, address, grpc.WithUnaryInterceptor(obedient(own)))}
	for range 6 {
		err := call.within(t, unary, right)
		expect.True(t, err == nil || codeOf(err) == codes.ResourceExhausted, "%v", err)
	}
	if n := denied.Load(); n > 3 || l.ran.Load() != 6-n {
		t.Errorf("%d of 6 calls were denied, %d ran; want every denial to be followed by a success", n, l.ran.Load())
	}
}
