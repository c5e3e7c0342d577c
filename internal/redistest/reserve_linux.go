package redistest

import (
	"github.com/spillgate/spillgate/internal/must"
	"syscall"
	"testing"
)

// reserve binds a socket to a port, or to any port if it is 0, until the test ends. It returns the port, or 0 if the port is in use.
// Since the socket does not listen, servers that set SO_REUSEADDR, as Redis, nginx and Go do, can still use the port.
func reserve(t testing.TB, port int) int {
	t.Helper()
	fd := must.Get(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}) != nil {
		return 0
	}
	// If it were set earlier, a port could be reserved twice.
	must.Do(t, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	addr := must.Get(syscall.Getsockname(fd))(t)
	return addr.(*syscall.SockaddrInet4).Port
}
