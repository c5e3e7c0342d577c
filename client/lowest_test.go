package client

import (
	"math/rand/v2"
	"testing"
)

// TestLowestIsSafe sends random requests to a window and to a bucket, with responses in any order. After each step it
// checks that at least as much remains as the client assumes, and exactly as much if no request is in flight.
func TestLowestIsSafe(t *testing.T) {
	type sending struct {
		sent uint64
		left int64 // -1: not decided yet
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		left, refills := int64(60), seed%2 == 0
		var clock uint64
		var low lowest
		var out []sending
		known := false
		for range 400 {
			clock++
			switch i := random.IntN(max(len(out), 1)); random.IntN(4) {
			case 0:
				if !known && len(out) == 0 || known && low.least() > int64(len(out)) {
					out = append(out, sending{clock, -1})
				}
			case 1, 2:
				if len(out) > 0 && out[i].left < 0 {
					if left--; left < 0 {
						t.Fatalf("seed %d: a request was sent for which nothing remained", seed)
					}
					out[i].left = left
				}
			case 3:
				if len(out) > 0 && out[i].left >= 0 {
					low.add(out[i].left, out[i].sent, clock)
					out = append(out[:i], out[i+1:]...)
					known = true
				}
			}
			if refills && random.IntN(20) == 0 {
				left++
			}
			if known && len(out) == 0 && !refills && low.least() != left {
				t.Fatalf("seed %d: %d remain, want %d", seed, low.least(), left)
			}
		}
	}
}
