package grpclimit_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/testpass"
	"github.com/spillgate/spillgate/keyfunc"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
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

// calling returns a func that makes a call with the metadata that grpc-go sends.
func calling(limiter *core.Limiter) func() {
	interceptor := grpclimit.Unary(limiter)
	md := metadata.Pairs(":authority", "127.0.0.1:4711", "content-type", "application/grpc", "user-agent", "grpc-go/1.57.0", "grpc-accept-encoding", "gzip")
	ctx := metadata.NewIncomingContext(context.Background(), md)
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(203, 0, 113, 9), Port: 4711}})
	info := &grpc.UnaryServerInfo{FullMethod: unary}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	return func() {
		_, _ = interceptor(grpc.NewContextWithServerTransportStream(ctx, new(transport)), nil, info, handler)
	}
}

// outcomes are a rule for each way in which a call can end.
var outcomes = []struct {
	why   string
	limit core.Limit
	final func(*http.Request, core.Outcome) int
	most  float64 // allocations, of which the transport and its context are two
}{
	// Five are the stdlib adapter's too. The others are the call, its address, the maps of its header and of its fields, and
	// the entries of the former.
	{"allowed", core.PerSecond(1_000_000_000), nil, 12},
	{"held", core.PerSecond(1_000_000_000), core.Failures, 15},
	{"denied", core.PerHour(1), nil, 61}, // most of them grpc-go's, which copies statuses; 60 before Go 1.27
}

func TestAllocations(t *testing.T) {
	for _, o := range outcomes {
		rule := o.limit.By(keyfunc.RemoteIP)
		rule.CostAfter = o.final
		call := calling(core.Must(core.New([]core.Rule{rule})))
		call()
		expect.AtMost(t, testpass.LeastAllocations(o.most, call), o.most, "%s: allocations", o.why)
	}
}
