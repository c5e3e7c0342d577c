package grpclimit_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// A transport is a stream of a server that keeps the metadata that is set.
type transport struct{ header, trailer metadata.MD }

func (t *transport) Method() string { return unary }
func (t *transport) SetHeader(md metadata.MD) error {
	t.header = md
	return nil
}
func (t *transport) SendHeader(md metadata.MD) error { return t.SetHeader(md) }
func (t *transport) SetTrailer(md metadata.MD) error {
	t.trailer = metadata.Join(t.trailer, md)
	return nil
}

// calling returns what makes a call with the metadata that grpc-go sends.
func calling(limiter *core.Limiter) func() {
	interceptor := grpclimit.Unary(limiter)
	md := metadata.Pairs(":authority", "127.0.0.1:4711", "content-type", "application/grpc", "user-agent", "grpc-go/1.57.0", "grpc-accept-encoding", "gzip")
	ctx := metadata.NewIncomingContext(context.Background(), md)
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(203, 0, 113, 9), Port: 4711}})
	info := &grpc.UnaryServerInfo{FullMethod: unary}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	return func() {
		t := new(transport)
		_, _ = interceptor(grpc.NewContextWithServerTransportStream(ctx, t), nil, info, handler)
	}
}

// requesting returns what serves a request of the same kind by net/http.
func requesting(limiter *core.Limiter) func() {
	h := stdlib.New(limiter)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest(http.MethodPost, unary, nil)
	r.RemoteAddr = "203.0.113.9:4711"
	r.Header = http.Header{"Content-Type": {"application/grpc"}, "User-Agent": {"grpc-go/1.57.0"}, "Grpc-Accept-Encoding": {"gzip"}}
	return func() {
		w := discard{make(http.Header)}
		h.ServeHTTP(w, r)
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestAllocations counts the allocations of a call, of which the transport and its context are two. Five are the stdlib adapter's
// too. The others are the call, its address, the maps of its header and of its fields, and the entries of the former.
func TestAllocations(t *testing.T) {
	call := calling(core.Must(core.New([]core.Rule{core.PerSecond(1_000_000_000).By(keyfunc.RemoteIP)})))
	least := testing.AllocsPerRun(1, call)
	for range 100 { // the race detector drops objects from pools at random
		least = min(least, testing.AllocsPerRun(1, call))
	}
	if least > 12 {
		t.Errorf("%v allocations, want at most 12", least)
	}
}

// BenchmarkUnary compares what the interceptor adds to a call with what the adapter for net/http adds to the same request.
func BenchmarkUnary(b *testing.B) {
	for name, of := range map[string]func(*core.Limiter) func(){"grpclimit": calling, "stdlib": requesting} {
		for why, limit := range map[string]core.Limit{"allowed": core.PerSecond(1_000_000_000), "denied": core.PerHour(1)} {
			b.Run(why+"/"+name, func(b *testing.B) {
				call := of(core.Must(core.New([]core.Rule{limit.By(keyfunc.RemoteIP)})))
				call()
				b.ReportAllocs()
				for b.Loop() {
					call()
				}
			})
		}
	}
}
