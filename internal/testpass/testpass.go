// Package testpass says which tests run with the race detector and under -short. make test runs all tests without the detector, and
// all but the marked ones again with it. LeastAllocations counts alike in both.
package testpass

import (
	"os"
	"testing"
)

// Sequential marks t as a test that runs in one goroutine, such as a comparison with an exact model. The race detector makes it much
// slower and cannot find anything, so t is skipped under -race.
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

// Soak reports whether make soak runs, which may take hours.
func Soak() bool { return os.Getenv("SPILLGATE_SOAK") != "" }

// Rounds returns how many times a test repeats its random draws: n, or 50 n under make soak.
func Rounds(n int) int {
	if Soak() {
		return 50 * n
	}
	return n
}

// LeastAllocations returns the smallest number of allocations of many calls of f, and stops once that is at most enough: the race
// detector drops an object in four from each pool, so a call that uses many pools rarely finds an object in all of them.
func LeastAllocations(enough float64, f func()) float64 {
	least := testing.AllocsPerRun(1, f)
	for i := 0; i < 50_000 && least > enough; i++ {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}
