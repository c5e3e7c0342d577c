package faults

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// A stopwatch records durations.
type stopwatch struct {
	mu    sync.Mutex
	times []time.Duration
}

func (s *stopwatch) add(d time.Duration) {
	s.mu.Lock()
	s.times = append(s.times, d)
	s.mu.Unlock()
}

// most returns the duration that all but so many in a thousand stayed within.
func (s *stopwatch) most(but int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.times) == 0 {
		return 0
	}
	slices.Sort(s.times)
	return s.times[(len(s.times)-1)*(1000-but)/1000]
}

// A machine records by how much timers fire late: a few milliseconds on an idle machine. A decision at its deadline needs a goroutine
// and a timer, so it may be late twice.
type machine struct{ stopwatch }

// watchMachine watches timers while t runs.
func watchMachine(t testing.TB, timers int) *machine {
	const tick = 5 * time.Millisecond
	m := new(machine)
	done := make(chan struct{})
	var watching sync.WaitGroup
	for range timers {
		watching.Go(func() {
			for {
				begun := time.Now()
				select {
				case <-time.After(tick):
					m.add(time.Since(begun) - tick)
				case <-done:
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		close(done)
		watching.Wait()
	})
	return m
}
