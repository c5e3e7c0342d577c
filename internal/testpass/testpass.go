// Package testpass says which tests belong to which pass of make test: one pass runs tests under the race detector, the other those that
// it would only make slow. .ci/gotest finds the tests of the other pass by the text of the calls, which are the first statement of a test.
package testpass

import (
	"os"
	"testing"
)

// Sequential marks t as a test that runs in one goroutine, such as a comparison with an exact model. The race detector makes it some
// twenty times slower and can find nothing in it, so t is skipped under -race.
func Sequential(t testing.TB) {
	t.Helper()
	if race {
		t.Skip("sequential tests run without -race")
	}
}

// Thorough marks t as a Sequential test that takes long, so t is skipped under -short as well.
func Thorough(t testing.TB) {
	t.Helper()
	if Sequential(t); testing.Short() {
		t.Skip("thorough tests run without -short")
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
