// Package testpass says which tests belong to which pass of make test: one pass runs every test, the other runs tests under the race
// detector.
package testpass

import "testing"

// Thorough marks t as a test that takes long and runs in one goroutine, such as a comparison with an exact model. The race detector
// makes it some twenty times slower and can find nothing in it, so t is skipped under -race, as well as under -short.
func Thorough(t testing.TB) {
	t.Helper()
	if race || testing.Short() {
		t.Skip("thorough tests run without -race and -short")
	}
}
