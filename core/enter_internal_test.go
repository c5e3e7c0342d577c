package core

import (
	"testing"
	"time"
)

// Who enters a shard that is locked gets it when it is free, and not before, whether that goes on or not.
func TestEnterWaits(t *testing.T) {
	const last = 1_000_000
	for _, later := range []int64{1, sustained, 3 * sustained} {
		s := shard{}
		s.waited.Store(last)
		s.Lock()
		free, entered := false, make(chan struct{})
		go func() {
			defer close(entered)
			s.enter(last + later)
			defer s.Unlock()
			if !free {
				t.Errorf("%d µs after the last wait: entered while it was locked", later)
			}
		}()
		for start := time.Now(); s.waited.Load() != last+later; time.Sleep(time.Millisecond) {
			if time.Since(start) > 10*time.Second {
				t.Fatalf("%d µs after the last wait: does not remember when it waits", later)
			}
		}
		time.Sleep(5 * time.Millisecond)
		free = true
		s.Unlock()
		select {
		case <-entered:
		case <-time.After(10 * time.Second):
			t.Fatalf("%d µs after the last wait: not entered", later)
		}
	}
}
