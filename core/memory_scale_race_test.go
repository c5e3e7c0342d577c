//go:build race

package core_test

// How many keys the tests of the memory bound use. The race detector makes each slower, and pads what it allocates.
const (
	floodKeys   = 100_000
	floodMax    = 20_000
	manyKeys    = 50_000
	bytesPerKey = 80
)
