package memory

// A slab hands out cells and numbers them from 1. If T has no pointers, neither has a slab, so the garbage collector
// does not scan the cells. A cell never moves, and a dropped cell is reused.
type slab[T any] struct {
	chunks [][]T
	unused []uint32 // dropped cells
	used   uint32   // cells ever handed out
}

// chunkCells keeps a small store small: a chunk of logs takes 3 KiB, and a chunk of holds 768 bytes.
const chunkCells = 32

func (s *slab[T]) at(i uint32) *T { return &s.chunks[(i-1)/chunkCells][(i-1)%chunkCells] }

// add stores v in a cell and returns its number.
func (s *slab[T]) add(v T) uint32 {
	if n := len(s.unused); n > 0 {
		i := s.unused[n-1]
		s.unused = s.unused[:n-1]
		*s.at(i) = v
		return i
	}
	if int(s.used) == len(s.chunks)*chunkCells {
		s.chunks = append(s.chunks, make([]T, chunkCells))
	}
	s.used++
	*s.at(s.used) = v
	return s.used
}

// isEmpty reports whether no cell is in use.
func (s *slab[T]) isEmpty() bool { return int(s.used) == len(s.unused) }

// all yields all cells that were ever handed out: a dropped one is zero.
func (s *slab[T]) all(yield func(*T) bool) {
	for i := uint32(1); i <= s.used; i++ {
		if !yield(s.at(i)) {
			return
		}
	}
}

// drop zeroes a cell and takes it back.
func (s *slab[T]) drop(i uint32) {
	var zero T
	*s.at(i) = zero
	s.unused = append(s.unused, i)
}
