package algorithm

import "math/bits"

// MaxExact bounds all states, products and waits. Lua counts in float64, in which whole numbers up to MaxExact are
// exact, so all stores make the same decisions. As microseconds, it is 285 years; a longer wait is reported as
// MaxExact.
const MaxExact = 1 << 53

// CeilDiv returns a/b rounded up. a must not be negative, b must be positive: an unsigned division needs no check for -1.
func CeilDiv(a, b int64) int64 { return int64(uint64(a+b-1) / uint64(b)) }

// FloorTo returns the largest multiple of step that is not above t. The Unix epoch is 0, and t may lie before it.
func FloorTo(t, step int64) int64 {
	rest := t % step
	if rest < 0 {
		rest += step
	}
	return t - rest
}

// mulDivUp returns a·b/c rounded up, or MaxExact if that is less.
func mulDivUp(a, b, c int64) int64 { return min(mulDivUpToTwice(a, b, c), MaxExact) }

// mulDivUpToTwice returns a·b/c rounded up, or 2·MaxExact if that is less.
func mulDivUpToTwice(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 2 * MaxExact
	}
	q, rest := bits.Div64(hi, lo, uint64(c))
	if rest > 0 {
		q++
	}
	return int64(min(q, 2*MaxExact))
}

// addProduct returns sum + a·b, or MaxExact if that is less. No argument may be negative.
func addProduct(sum, a, b int64) int64 {
	if !fits(sum, a, b) {
		return MaxExact
	}
	return sum + a*b
}

// fits reports whether sum + a·b is at most MaxExact. No argument may be negative.
func fits(sum, a, b int64) bool {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return hi == 0 && lo <= MaxExact && sum+int64(lo) <= MaxExact
}
