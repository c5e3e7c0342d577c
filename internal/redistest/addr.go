package redistest

import (
	"fmt"
	"testing"
)

// busOffset is how far above its port the other nodes of a cluster reach a node.
const busOffset = 10_000

// FreeAddr returns an address of the loopback interface for a server of this test. Until the test ends, nothing else gets its port: no
// other caller of FreeAddr, no listener that asks for any port, and no connection. So a server can stop and start again, and in the
// meantime the operating system refuses connections. The port of the cluster bus is reserved in the same way.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		if bus := reserve(t, 0); bus > 2*busOffset && reserve(t, bus-busOffset) != 0 {
			return fmt.Sprintf("127.0.0.1:%d", bus-busOffset)
		}
	}
	t.Fatal("found no free port")
	return ""
}
