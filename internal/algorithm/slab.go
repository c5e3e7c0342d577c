package algorithm

// A Slab hands out rooms and numbers them from 1. A room never moves, and a dropped room is used again.
type Slab[T any] struct {
	chunks [][]T
	unused []uint32 // dropped rooms
	used   uint32   // rooms ever handed out
}

// chunkRooms keeps a small store small: a chunk of Cells is 768 bytes, a size class of the allocator.
const chunkRooms = 32

// At returns the room of a number.
func (s *Slab[T]) At(i uint32) *T { return &s.chunks[(i-1)/chunkRooms][(i-1)%chunkRooms] }

// Add stores v in a room and returns its number.
func (s *Slab[T]) Add(v T) uint32 {
	if n := len(s.unused); n > 0 {
		i := s.unused[n-1]
		s.unused = s.unused[:n-1]
		*s.At(i) = v
		return i
	}
	if int(s.used) == len(s.chunks)*chunkRooms {
		s.chunks = append(s.chunks, make([]T, chunkRooms))
	}
	s.used++
	*s.At(s.used) = v
	return s.used
}

// Len returns how many rooms are in use.
func (s *Slab[T]) Len() int { return int(s.used) - len(s.unused) }

// All yields all rooms that were ever handed out: a dropped one is zero.
func (s *Slab[T]) All(yield func(*T) bool) {
	for i := uint32(1); i <= s.used; i++ {
		if !yield(s.At(i)) {
			return
		}
	}
}

// Drop zeroes a room and takes it back.
func (s *Slab[T]) Drop(i uint32) {
	var zero T
	*s.At(i) = zero
	s.unused = append(s.unused, i)
}
