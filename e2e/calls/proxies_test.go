package calls

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/proxy"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

// dial connects from an address that no proxy has: all of 127.0.0.0/8 is loopback on Linux.
func dial(ctx context.Context, _, address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	return d.DialContext(ctx, "tcp", address)
}

// A claim is an http.RoundTripper that adds fields to requests, which say that they come from elsewhere.
type claim struct {
	next   *http.Transport
	fields []string
}

func (c claim) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for i := 0; i < len(c.fields); i += 2 {
		r.Header.Add(c.fields[i], c.fields[i+1])
	}
	return c.next.RoundTrip(r)
}

// distant returns clients that call from another address, and add fields to their calls. One of them retries.
func distant(t *testing.T, address string, fields ...string) []client {
	h1, h2 := transportOf(t, false), transportOf(t, true)
	h1.DialContext, h2.DialContext = dial, dial
	c1, c2 := &http.Client{Transport: claim{h1, fields}, Timeout: wire.Timeout}, &http.Client{Transport: claim{h2, fields}, Timeout: wire.Timeout}
	native := grpcClient(t, address, retries, grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return dial(ctx, "tcp", to) }))
	return []client{
		{"grpc-go", func(ctx context.Context, kind, pass string) error {
			return native(metadata.AppendToOutgoingContext(ctx, fields...), kind, pass)
		}},
		{"gRPC", connectClient(c2, address, connect.WithGRPC())},
		{"gRPC-Web", connectClient(c2, address, connect.WithGRPCWeb())},
		{"Connect", connectClient(c2, address)},
		{"gRPC-Web by HTTP/1.1", connectClient(c1, address, connect.WithGRPCWeb())},
		{"Connect by HTTP/1.1", connectClient(c1, address)},
	}
}

// TestBehindProxies checks that servers behind a proxy know their clients, whatever these claim, and that the clients get denials.
func TestBehindProxies(t *testing.T) {
	t.Parallel()
	ip := must.Get(keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}))(t)
	var claims [][]string
	for _, address := range []string{"198.51.100.7", "127.0.0.1", "203.0.113.9, 127.0.0.1", "garbage", strings.Repeat("198.51.100.7, ", 40) + "127.0.0.1"} {
		claims = append(claims, []string{"x-forwarded-for", address, "forwarded", "for=" + address, "x-real-ip", address, "x-client-ip", address})
	}
	claims = append(claims, nil, []string{"x-forwarded-for", "198.51.100.7", "x-forwarded-for", "127.0.0.1"})

	for name, start := range map[string]func(t *testing.T, upstream string) string{
		"nginx": func(t *testing.T, upstream string) string {
			return proxy.Start(t, proxy.Nginx{Listen: "127.0.0.1", Upstream: upstream, GRPC: true})
		},
		"haproxy": func(t *testing.T, upstream string) string { return proxy.Start(t, proxy.HAProxy(upstream)) },
		"caddy":   func(t *testing.T, upstream string) string { return proxy.Start(t, proxy.Caddy(upstream)) },
	} {
		for server, serve := range bothServers {
			t.Run(name+", "+server, func(t *testing.T) {
				t.Parallel()
				through := func(l *core.Limiter, fields ...string) (some []client) {
					for _, c := range distant(t, start(t, serve(t, l)), fields...) {
						if onlyGRPC := name == "nginx" || server == "grpclimit"; !onlyGRPC || strings.EqualFold(c.name[:4], "grpc") && !strings.Contains(c.name, "Web") {
							some = append(some, c)
						}
					}
					return some
				}

				l := core.Must(core.New([]core.Rule{core.Every(1000, 365*24*time.Hour).By(ip)}))
				n := 0
				for _, fields := range claims {
					for _, c := range through(l, fields...) {
						for _, kind := range kinds {
							if !c.can(kind) {
								continue
							}
							expect.NoError(t, c.within(t, kind, right), "%s, %s, %q", c.name, kind, fields)
							n++
						}
					}
				}
				d, err := l.Take(t.Context(), core.Claim{Key: "ip:127.0.0.9", Peek: true})
				left := d.Results[0].Remaining
				expect.True(t, err == nil && left == 1000-n, "%d of 1000 are left to the client after %d calls, %v", left, n, err)

				for _, c := range through(limiterOf(verdict{wait: 90*time.Second + 1}, ip, "login")) {
					for _, kind := range kinds {
						if c.can(kind) {
							t.Run(fmt.Sprintf("%s, %s, denied", c.name, kind), func(t *testing.T) {
								err := c.within(t, kind, right)
								for i := 0; i < 100 && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)); i++ { // the response came before the request had ended
									err = c.within(t, kind, right)
								}
								want(t, err, codes.ResourceExhausted, retryIn(90001*time.Millisecond), quota("login"))
							})
						}
					}
				}
				c := through(core.Must(core.New([]core.Rule{core.PerSecond(5).WithBurst(1).By(ip)})))[0]
				for _, kind := range kinds {
					expect.NoError(t, c.within(t, kind, right), "%s, which should be retried", kind)
				}
			})
		}
	}
}
