package redistest_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// A free address refuses connections while no server listens on it. Nobody else gets it.
func TestFreeAddrIsReserved(t *testing.T) {
	addr := redistest.FreeAddr(t)
	for range 2 {
		if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v before a server listens, want it refused", err)
		}
		other := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0) })
		}}
		if _, err := other.Listen(context.Background(), "tcp", addr); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("got %v for a reserved address, want \"address already in use\"", err)
		}
		server := must.Get(net.Listen("tcp", addr))(t)
		client := must.Get(net.Dial("tcp", addr))(t)
		client.Close()
		server.Close()
	}
}
