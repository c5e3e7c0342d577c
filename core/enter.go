package core

const (
	sustained = 4       // microseconds between two waits for a shard that are no coincidence
	patience  = 1 << 14 // turns of an empty loop: some microseconds
	attempts  = 4
)

// enter is Lock for who needs s for some nanoseconds. If two cores take turns at it, each turn begins with a wait for the
// cache of the other, and a goroutine that sleeps takes long to wake. So where that goes on, who finds s locked leaves it to
// the other for a while: then two cores decide as much about one key as one core alone, instead of two thirds of that.
func (s *shard) enter(now int64) {
	if s.TryLock() {
		return
	}
	last := s.waited.Swap(now)
	for n := 0; now-last <= sustained && n < attempts; n++ {
		for range patience {
		}
		if s.TryLock() {
			return
		}
	}
	s.Lock()
}
