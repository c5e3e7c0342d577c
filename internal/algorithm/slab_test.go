package algorithm

import "testing"

func TestRoomsOfASlabDoNotOverlap(t *testing.T) {
	var s Slab[int]
	const n = 3*chunkRooms + 5
	for i := uint32(1); i <= n; i++ {
		if got := s.Add(int(i)); got != i {
			t.Fatalf("room %d has the number %d", i, got)
		}
	}
	for i := uint32(1); i <= n; i++ {
		if got := *s.At(i); got != int(i) {
			t.Errorf("room %d has %d", i, got)
		}
	}
	if len(s.chunks) != 4 {
		t.Errorf("%d chunks, want 4", len(s.chunks))
	}
}

// A dropped room is set to zero, and it is the next room handed out.
func TestDroppedRoomsAreUsedAgain(t *testing.T) {
	var s Slab[int]
	for i := range 5 {
		s.Add(10 + i)
	}
	s.Drop(2)
	s.Drop(4)
	if all := roomsOf(&s, 5); all != [5]int{10, 0, 12, 0, 14} {
		t.Errorf("after two drops: %v", all)
	}
	if a, b, c := s.Add(20), s.Add(21), s.Add(22); a != 4 || b != 2 || c != 6 {
		t.Errorf("handed out %d, %d and %d, want 4, 2 and 6", a, b, c)
	}
	if all := roomsOf(&s, 5); all != [5]int{10, 21, 12, 20, 14} {
		t.Errorf("filled again: %v", all)
	}
	if all := roomsOf(&s, 2); all != [5]int{10, 21} {
		t.Errorf("the first two: %v", all)
	}
	seen := 0
	for range s.All {
		seen++
	}
	if seen != 6 {
		t.Errorf("%d rooms, want 6", seen)
	}
}

// roomsOf returns the first n rooms of s.
func roomsOf(s *Slab[int], n int) (rooms [5]int) {
	i := 0
	for room := range s.All {
		rooms[i] = *room
		if i++; i == n {
			break
		}
	}
	return rooms
}
