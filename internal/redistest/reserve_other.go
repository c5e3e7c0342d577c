//go:build !linux

package redistest

import (
	"fmt"
	"net"
	"testing"
)

// reserve returns a port, or any if it is 0, that is free now. It returns 0 if it is in use. Other systems than Linux
// do not let a server listen on a port that another socket is bound to.
func reserve(t testing.TB, port int) int {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return 0
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
