package memory

import "testing"

func TestResetsAreBoundedAndForgettingOneIsNoLaxer(t *testing.T) {
	var r resets
	if at := r.begunAt(7); at != 0 {
		t.Errorf("a pair that was not reset begins at %d", at)
	}
	for id := range uint64(maxResets) {
		r.begin(id, int64(10+id))
	}
	if first, last, other := r.begunAt(0), r.begunAt(maxResets-1), r.begunAt(maxResets); first != 10 || last != maxResets+9 || other != 0 {
		t.Errorf("pairs begin at %d, %d and, without a reset, %d", first, last, other)
	}
	r.begin(maxResets, 5000)
	if len(r.begun) != 1 {
		t.Errorf("%d resets are remembered after one too many, want it alone", len(r.begun))
	}
	for _, id := range []uint64{0, maxResets, maxResets + 1} {
		if at := r.begunAt(id); at != 5000 {
			t.Errorf("pair %d begins at %d, want no charge before the last reset to be given back", id, at)
		}
	}
	if r.begin(3, 6000); r.begunAt(3) != 6000 || r.begunAt(4) != 5000 {
		t.Errorf("pairs begin at %d and %d after another reset, want 6000 and 5000", r.begunAt(3), r.begunAt(4))
	}
}
