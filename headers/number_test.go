package headers

import (
	"fmt"
	"math"
	"testing"
)

const few = int64(len(numbers))

// TestNumbers asks for more numbers than are remembered, each twice, so that some take the place of others.
func TestNumbers(t *testing.T) {
	for _, from := range []int64{-2000, 0, 1767268800, math.MaxInt64 - 2*few} {
		for n := from; n < from+2*few; n++ {
			for range 2 {
				if got, want := number(n), fmt.Sprint(n); got != want {
					t.Fatalf("number(%d) = %q", n, got)
				}
			}
		}
	}
	edges := []int64{math.MinInt64, -1, 0, 1, few - 1, few, few + 1, math.MaxInt64}
	for _, a := range edges {
		for _, b := range edges {
			if x, y := twoNumbers(a, b); x != fmt.Sprint(a) || y != fmt.Sprint(b) {
				t.Errorf("twoNumbers(%d, %d) = %q, %q", a, b, x, y)
			}
		}
	}
}

// What is shown often costs nothing, and what is not costs one allocation.
func TestNumberAllocations(t *testing.T) {
	for _, row := range []struct {
		a, b int64
		want float64
	}{{few - 1, 0, 0}, {0, few - 1, 0}, {few, 0, 1}, {0, few, 1}, {-1, 0, 1}} {
		twoNumbers(row.a, row.b)
		if got := testing.AllocsPerRun(100, func() { twoNumbers(row.a, row.b) }); got != row.want {
			t.Errorf("twoNumbers(%d, %d): %v allocations, want %v", row.a, row.b, got, row.want)
		}
	}
	number(1767268800)
	if got := testing.AllocsPerRun(100, func() { number(1767268800) }); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

func BenchmarkNumber(b *testing.B) {
	for b.Loop() {
		number(1767268800)
	}
}

func BenchmarkTwoNumbers(b *testing.B) {
	for b.Loop() {
		twoNumbers(4999, 1)
	}
}
