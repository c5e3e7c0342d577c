//go:build !linux

package redistest

import (
	"fmt"
	"net"
	"testing"
)

// reserve returns a port that is currently free: this one, or any port if it is 0. It returns 0 if the port is in use.
// Unlike Linux, other systems do not let a server listen on a port that another socket is bound to.
func reserve(t testing.TB, port int) int {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return 0
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
