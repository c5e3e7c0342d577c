package proxies

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/e2e/internal/proxy"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/must"
)

// The addresses of clients and proxies. All of 127.0.0.0/8 is loopback on Linux, so each can have its own.
const (
	client = "127.0.0.9"
	edge   = "127.0.0.2" // the address that the outer nginx connects from
	inner  = "127.0.0.3" // the address that the inner nginx connects from, if there are two
)

// A topology is a chain of proxies from a client to an application.
type topology struct {
	name string
	from string // the address of the client
	ipv6 bool   // whether it needs ::1

	// build serves the application and returns where the client connects to.
	build func(t *testing.T, app http.Handler) string
}

var topologies = []topology{
	{"one proxy", client, false, func(t *testing.T, app http.Handler) string {
		return proxy.Start(t, proxy.Nginx{Listen: "127.0.0.1", Upstream: serve(t, "127.0.0.1:0", app), Bind: edge})
	}},
	{"two proxies", client, false, func(t *testing.T, app http.Handler) string {
		second := proxy.Start(t, proxy.Nginx{Listen: "127.0.0.1", Upstream: serve(t, "127.0.0.1:0", app), Bind: inner})
		return proxy.Start(t, proxy.Nginx{Listen: "127.0.0.1", Upstream: second, Bind: edge})
	}},
	{"an IPv6 client", "::1", true, func(t *testing.T, app http.Handler) string {
		return proxy.Start(t, proxy.Nginx{Listen: "[::1]", Upstream: serve(t, "127.0.0.1:0", app), Bind: edge})
	}},
	{"an IPv6 client and two proxies", "::1", true, func(t *testing.T, app http.Handler) string {
		second := proxy.Start(t, proxy.Nginx{Listen: "127.0.0.1", Upstream: serve(t, "127.0.0.1:0", app), Bind: inner})
		return proxy.Start(t, proxy.Nginx{Listen: "[::1]", Upstream: second, Bind: edge})
	}},
	{"an IPv6 proxy", client, true, func(t *testing.T, app http.Handler) string {
		return proxy.Start(t, proxy.Nginx{Listen: "127.0.0.1", Upstream: serve(t, "[::1]:0", app)})
	}},
	{"a Unix socket to the application", client, false, func(t *testing.T, app http.Handler) string {
		return proxy.Start(t, proxy.Nginx{Listen: "127.0.0.1", Upstream: serve(t, socket(t), app)})
	}},
	{"a Unix socket between two proxies", client, false, func(t *testing.T, app http.Handler) string {
		second := proxy.Start(t, proxy.Nginx{Listen: socket(t), Upstream: serve(t, "127.0.0.1:0", app), Bind: inner})
		return proxy.Start(t, proxy.Nginx{Listen: "127.0.0.1", Upstream: second})
	}},
	{"past the proxy", client, false, func(t *testing.T, app http.Handler) string { return serve(t, "127.0.0.1:0", app) }},
	{"past the proxy, on a Unix socket", "", false, func(t *testing.T, app http.Handler) string { return serve(t, socket(t), app) }},
}

// socket returns the path of a Unix socket, with "unix:" in front. Such paths must be short.
func socket(t *testing.T) string {
	dir := must.Get(os.MkdirTemp("", "sg"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return "unix:" + filepath.Join(dir, "s")
}

// serve serves app on an address, or on a Unix socket, until the test ends. It returns the name by which nginx can connect to it.
func serve(t *testing.T, on string, app http.Handler) string {
	network := "tcp"
	address, unix := strings.CutPrefix(on, "unix:")
	if unix {
		network = "unix"
	}
	l := must.Get(net.Listen(network, address))(t)
	s := &http.Server{Handler: app}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	if unix {
		return on
	}
	return l.Addr().String()
}

// connect returns an http.Client that connects to addr, whatever the host of a URL, from an address of its own.
func connect(t *testing.T, addr, from string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		if from == "" {
			return proxy.Dial(addr)
		}
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		return d.DialContext(ctx, "tcp", addr)
	}
	transport := &http.Transport{DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: wire.Timeout}
}

func needIPv6(t *testing.T) {
	for _, a := range must.Get(net.InterfaceAddrs())(t) {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.Equal(net.IPv6loopback) {
			return
		}
	}
	t.Skip("SKIPPED: this machine has no address ::1")
}
