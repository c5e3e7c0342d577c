package core

import "math/bits"

// Whole numbers up to maxExact are exact in a float64, which is what a Lua script counts in. No state, no product and no
// wait in this package exceeds it, so that every store can decide alike. As microseconds it is 285 years; a longer wait
// is reported as this one.
const maxExact = 1 << 53

// ceilDiv returns a/b rounded up. a must not be negative, b must be positive.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// floorTo returns the largest multiple of step that is not above t. The Unix epoch is 0, and t may lie before it.
func floorTo(t, step int64) int64 {
	rest := t % step
	if rest < 0 {
		rest += step
	}
	return t - rest
}

// mulDivUp returns a·b/c rounded up, or maxExact if that is less.
func mulDivUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return maxExact
	}
	q, rest := bits.Div64(hi, lo, uint64(c))
	if rest > 0 {
		q++
	}
	return int64(min(q, maxExact))
}

// usage is what a state says of its limit. Times are in microseconds from now.
type usage struct {
	remaining, refill, reset int64
}
