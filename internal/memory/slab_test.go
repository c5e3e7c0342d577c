package memory

import "testing"

func TestCellsOfASlabAreTheirOwn(t *testing.T) {
	var s slab[int]
	const n = 3*chunkCells + 5
	for i := uint32(1); i <= n; i++ {
		if got := s.add(int(i)); got != i {
			t.Fatalf("cell %d has the number %d", i, got)
		}
	}
	for i := uint32(1); i <= n; i++ {
		if got := *s.at(i); got != int(i) {
			t.Errorf("cell %d has %d", i, got)
		}
	}
	if len(s.chunks) != 4 {
		t.Errorf("%d chunks, want 4", len(s.chunks))
	}
}

// A dropped cell is set to zero, and it is the next cell handed out.
func TestDroppedCellsAreUsedAgain(t *testing.T) {
	var s slab[int]
	for i := range 5 {
		s.add(10 + i)
	}
	s.drop(2)
	s.drop(4)
	if all := cellsOf(&s, 5); all != [5]int{10, 0, 12, 0, 14} {
		t.Errorf("after two drops: %v", all)
	}
	if a, b, c := s.add(20), s.add(21), s.add(22); a != 4 || b != 2 || c != 6 {
		t.Errorf("handed out %d, %d and %d, want 4, 2 and 6", a, b, c)
	}
	if all := cellsOf(&s, 5); all != [5]int{10, 21, 12, 20, 14} {
		t.Errorf("filled again: %v", all)
	}
	if all := cellsOf(&s, 2); all != [5]int{10, 21} {
		t.Errorf("the first two: %v", all)
	}
	seen := 0
	for range s.all {
		seen++
	}
	if seen != 6 {
		t.Errorf("%d cells, want 6", seen)
	}
}

// cellsOf returns the first n cells of s.
func cellsOf(s *slab[int], n int) (cells [5]int) {
	i := 0
	for cell := range s.all {
		cells[i] = *cell
		if i++; i == n {
			break
		}
	}
	return cells
}
