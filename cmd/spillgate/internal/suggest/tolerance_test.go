package suggest

import (
	"math"
	"testing"
)

func TestToleranceLimits(t *testing.T) {
	tests := []struct {
		n            int
		keep         float64
		hits, needed int
	}{
		{1, 99.9, 0, 2995}, {2994, 99.9, 0, 2995}, {2995, 99.9, 0, 0}, // Wilks: ln 0.05 / ln 0.999
		{58, 95, 0, 59}, {59, 95, 0, 0}, {92, 95, 0, 0}, {93, 95, 1, 0}, {181, 95, 4, 0}, // tables of 95/95 tolerance limits
		{1_000_000, 99.9, 947, 0}, {10, 100, 0, 0},
	}
	for _, tt := range tests {
		if hits, needed := mayHit(tt.n, tt.keep); hits != tt.hits || needed != tt.needed {
			t.Errorf("%d clients, %v%%: got %d, %d; want %d, %d", tt.n, tt.keep, hits, needed, tt.hits, tt.needed)
		}
	}
	for _, n := range []int{100_000, 10_000_000} { // near the normal distribution
		mean := float64(n) * 0.01
		want := mean - 1.645*math.Sqrt(mean*0.99)
		if hits, _ := mayHit(n, 99); math.Abs(float64(hits)-want) > 2+want/1e4 {
			t.Errorf("%d clients: got %d, want about %.0f", n, hits, want)
		}
	}
}

func TestRoundedNumbers(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 9: 9, 10: 10, 11: 12, 19: 20, 21: 25, 49: 50, 51: 60, 99: 100, 101: 120, 421: 450, 951: 1000, 12_345: 14_000} {
		if got := roundUp(n); got != want {
			t.Errorf("%d: got %d, want %d", n, got, want)
		}
	}
}

func TestHistogramFindsTheMiddle(t *testing.T) {
	for _, step := range []int64{1, 1000, 77_777, 3_600_000_000} {
		d := histogram{from: 5}
		const n = 10_000
		for i := range int64(n) {
			d.add(5 + i*step)
		}
		got, want := d.half(n), 5+n/2*step
		if off := max(got-want, want-got); off > d.width {
			t.Errorf("a step of %d: got %d, want about %d", step, got, want)
		}
	}
}
