package lease

// These methods are for tests of stores, because leases end and are granted in the background.

// Ended reports whether no key is leased, no unused requests wait for a sweep, and no sweep is due.
func (t *Table) Ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.keys.Load() == 0 && len(t.unused) == 0 && !t.armed
}

// GrantsInFlight returns how many grants are in flight.
func (t *Table) GrantsInFlight() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, e := range s.entries {
			if e.grantInFlight() != nil {
				n++
			}
		}
		s.mu.Unlock()
	}
	return n
}

// Stop prevents further sweeps, so that the garbage collector can free a table that a test leaves behind.
func (t *Table) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}
