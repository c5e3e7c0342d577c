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

// A divisor divides by a number that is known in advance: a multiplication takes a third of the time of a division. This
// is Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (1994), theorem 4.2, for numbers
// below 2^63.
type divisor struct {
	n          int64
	reciprocal uint64 // 2^(63+shift) / n, rounded up
	shift      uint8  // bits of n-1: below 64
}

// newDivisor returns a divisor by n, or one that must not be used if n is 0.
func newDivisor(n int64) divisor {
	if n == 0 {
		return divisor{}
	}
	shift := bits.Len64(uint64(n - 1))
	q, rest := bits.Div64(1<<shift>>1, uint64(1<<shift&1)<<63, uint64(n))
	if rest > 0 {
		q++
	}
	return divisor{n: n, reciprocal: q, shift: uint8(shift)}
}

// floor returns a/n rounded down. a must not be negative.
func (d *divisor) floor(a int64) int64 {
	hi, _ := bits.Mul64(uint64(a)<<1, d.reciprocal)
	return int64(hi >> (d.shift & 63)) // the mask says so to the compiler
}

// ceil returns a/n rounded up. a must not be negative.
func (d *divisor) ceil(a int64) int64 { return d.floor(a + d.n - 1) }

// usage is what a state says of its limit. Times are in microseconds from now.
type usage struct {
	remaining, refill, reset int64
}
