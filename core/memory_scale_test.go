//go:build !race

package core_test

// How many keys the tests of the memory bound use.
const (
	floodKeys   = 5_000_000
	floodMax    = 0 // the default, a million
	manyKeys    = 1_000_000
	bytesPerKey = 48
)
