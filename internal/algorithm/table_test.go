package algorithm

import "testing"

// Stores add to a code: the memory store the tick of a bucket, Redis the mark of a held limit.
func TestCodesLeaveRoomForMarks(t *testing.T) {
	seen := make(map[uint64]Algorithm)
	for i := range Table {
		a, code := Algorithm(i), Table[i].Code
		if a == InFlight {
			continue
		}
		if other, ok := seen[code]; ok || code%2 != 0 || code > codeBits || code == 2 {
			t.Errorf("algorithm %d has code %d, want an even one below 16 that is neither 2 nor another's (%d)", a, code, other)
		}
		seen[code] = a
	}
}
