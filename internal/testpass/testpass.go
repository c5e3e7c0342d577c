// Package testpass says which tests belong to which pass of make test: one pass runs every test, the other runs tests
// under the race detector.
package testpass

import (
	"os"
	"testing"
)

// Thorough marks t as a test that takes long and runs in one goroutine, such as a comparison with an exact model. The
// race detector makes it some twenty times slower and can find nothing in it, so t is skipped under -race, as well as
// under -short. .ci/gotest finds the test by the text of this call, which is its first statement.
func Thorough(t testing.TB) {
	t.Helper()
	if race || testing.Short() {
		t.Skip("thorough tests run without -race and -short")
	}
}

// Soak reports whether make soak runs, which has hours.
func Soak() bool { return os.Getenv("SPILLGATE_SOAK") != "" }

// Rounds returns how many times a test repeats its random draws: n, or 50 n under make soak.
func Rounds(n int) int {
	if Soak() {
		return 50 * n
	}
	return n
}
