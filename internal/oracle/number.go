package oracle

import "math/big"

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func times(a *big.Rat, n int64) *big.Rat { return new(big.Rat).Mul(a, whole(n)) }

// floor returns the largest integer that is not above x, which must fit an int64 and must not be negative.
func floor(x *big.Rat) int64 { return new(big.Int).Quo(x.Num(), x.Denom()).Int64() }

// roundUp returns the least multiple of 1/n that is not below x, which must not be negative.
func roundUp(x *big.Rat, n int64) *big.Rat {
	units := times(x, n)
	up := new(big.Int).Add(units.Num(), units.Denom())
	up.Sub(up, big.NewInt(1)).Quo(up, units.Denom())
	return new(big.Rat).SetFrac(up, big.NewInt(n))
}

func smaller(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func larger(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// begin returns the last multiple of step up to t, which is not before the epoch.
func begin(t, step int64) int64 { return t / step * step }
