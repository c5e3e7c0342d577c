package algorithm

import "testing"

func TestMulDivUpIsCutAtTheLargestWholeNumber(t *testing.T) {
	for _, row := range []struct {
		why           string
		a, b, c, want int64
	}{
		{"a part counts as a whole", 7, 5, 12, 3},
		{"a whole stays one", 7, 12, 12, 7},
		{"the product may need more than 64 bits", 1 << 50, 1 << 49, 1 << 49, 1 << 50},
		{"the largest is none too large", MaxExact, 3, 3, MaxExact},
		{"a part more is", MaxExact, 1001, 1000, MaxExact},
		{"a quotient of 64 bits is", 1 << 40, 1 << 40, 1<<16 + 1, MaxExact},
		{"so is one that needs a bit more", 1 << 40, 1 << 40, 1 << 16, MaxExact},
		{"and one that needs many", MaxExact, 1 << 49, 1, MaxExact},
	} {
		if got := mulDivUp(row.a, row.b, row.c); got != row.want {
			t.Errorf("%s: %d·%d/%d is %d, want %d", row.why, row.a, row.b, row.c, got, row.want)
		}
	}
}

func TestAddProductIsCutAtTheLargestWholeNumber(t *testing.T) {
	for _, row := range [][4]int64{
		{1, 2, 3, 7}, {MaxExact - 6, 2, 3, MaxExact}, {MaxExact - 5, 2, 3, MaxExact}, {0, 1 << 32, 1 << 32, MaxExact},
		{0, 1 << 40, 1 << 13, MaxExact}, {5, 0, MaxExact, 5}, {MaxExact, MaxExact, MaxExact, MaxExact},
	} {
		if got := addProduct(row[0], row[1], row[2]); got != row[3] {
			t.Errorf("%d + %d·%d is %d, want %d", row[0], row[1], row[2], got, row[3])
		}
	}
}

func TestFitsUpToTheLargestWholeNumber(t *testing.T) {
	for _, row := range []struct {
		sum, a, b int64
		want      bool
	}{
		{0, 0, 0, true}, {MaxExact, 0, 5, true}, {0, 1, MaxExact, true}, {MaxExact - 6, 2, 3, true},
		{MaxExact - 5, 2, 3, false}, {1, 1, MaxExact, false}, {0, 1, MaxExact + 1, false},
		{0, 1 << 32, 1 << 32, false}, // the product needs more than 64 bits, and its low ones are 0
		{0, 1 << 40, 1 << 40, false},
		{1, 1 << 31, 1 << 32, false}, // added up, they overflow
	} {
		if got := fits(row.sum, row.a, row.b); got != row.want {
			t.Errorf("%d + %d·%d fits: %t, want %t", row.sum, row.a, row.b, got, row.want)
		}
	}
}

func TestMultiplesBeforeTheEpoch(t *testing.T) {
	for at, want := range map[int64]int64{10: 10, 9: 0, 0: 0, -1: -10, -10: -10, -11: -20} {
		if got := FloorTo(at, 10); got != want {
			t.Errorf("the multiple of 10 not above %d is %d, want %d", at, got, want)
		}
	}
}
