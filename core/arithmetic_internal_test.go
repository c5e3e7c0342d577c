package core

import "testing"

func TestMulDivUpIsCutAtTheLargestWholeNumber(t *testing.T) {
	for _, row := range []struct {
		why           string
		a, b, c, want int64
	}{
		{"a part counts as a whole", 7, 5, 12, 3},
		{"a whole stays one", 7, 12, 12, 7},
		{"the product may need more than 64 bits", 1 << 50, 1 << 49, 1 << 49, 1 << 50},
		{"the largest is none too large", maxExact, 3, 3, maxExact},
		{"a part more is", maxExact, 1001, 1000, maxExact},
		{"a quotient of 64 bits is", 1 << 40, 1 << 40, 1<<16 + 1, maxExact},
		{"so is one that needs a bit more", 1 << 40, 1 << 40, 1 << 16, maxExact},
		{"and one that needs many", maxExact, 1 << 49, 1, maxExact},
	} {
		if got := mulDivUp(row.a, row.b, row.c); got != row.want {
			t.Errorf("%s: %d·%d/%d is %d, want %d", row.why, row.a, row.b, row.c, got, row.want)
		}
	}
}

func TestMultiplesBeforeTheEpoch(t *testing.T) {
	for at, want := range map[int64]int64{10: 10, 9: 0, 0: 0, -1: -10, -10: -10, -11: -20} {
		if got := floorTo(at, 10); got != want {
			t.Errorf("the multiple of 10 not above %d is %d, want %d", at, got, want)
		}
	}
}
