package core

import (
	"math"
	"math/rand/v2"
	"testing"
)

// near returns n and its neighbours, as far as a divisor takes them.
func near(n uint64) (some []int64) {
	for _, v := range []uint64{n - 2, n - 1, n, n + 1, n + 2} {
		if v < 1<<63 {
			some = append(some, int64(v))
		}
	}
	return some
}

func TestADivisorDividesAsDivisionDoes(t *testing.T) {
	var numbers []int64
	for bit := range 64 {
		numbers = append(numbers, near(1<<bit)...)
		numbers = append(numbers, near((1<<63-1)/(1<<bit))...)
		for range 20 {
			numbers = append(numbers, rand.Int64N(1<<62)>>(bit%62))
		}
	}
	for _, n := range numbers {
		if n == 0 {
			continue
		}
		d := newDivisor(n)
		multiples := []int64{n, n * rand.Int64N(max(1, (1<<62)/n))}
		for _, m := range multiples {
			numbers := append(near(uint64(m)), numbers...)
			for _, a := range numbers {
				if got := d.floor(a); got != a/n {
					t.Fatalf("%d / %d = %d, want %d", a, n, got, a/n)
				}
				if a <= math.MaxInt64-n && d.ceil(a) != ceilDiv(a, n) {
					t.Fatalf("%d / %d = %d, rounded up, want %d", a, n, d.ceil(a), ceilDiv(a, n))
				}
			}
		}
	}
}
