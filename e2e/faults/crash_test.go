package faults

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/redistest"
)

// A stopwatch keeps how long things took.
type stopwatch struct {
	mu    sync.Mutex
	times []time.Duration
}

func (s *stopwatch) add(d time.Duration) {
	s.mu.Lock()
	s.times = append(s.times, d)
	s.mu.Unlock()
}

// most returns what all but so many in a thousand stayed within.
func (s *stopwatch) most(but int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.times)
	return s.times[(len(s.times)-1)*(1000-but)/1000]
}

// lateness keeps how late timers are while a test runs: what the machine adds to everything.
func lateness(callers int, pause time.Duration, done <-chan struct{}, wg *sync.WaitGroup) *stopwatch {
	late := new(stopwatch)
	for range callers {
		wg.Go(func() {
			for {
				begun := time.Now()
				select {
				case <-time.After(pause):
					late.add(time.Since(begun) - pause)
				case <-done:
					return
				}
			}
		})
	}
	return late
}

// A Redis with 200 callers is killed and comes back, with all it knew. Nobody waits for longer than the deadline, and
// nobody gets more than the store and this process have to give.
func TestKilledUnder200Callers(t *testing.T) {
	const capacity = 1000
	for mode := range modes {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t, "--appendonly", "yes", "--appendfsync", "everysec")
			g := newGuard(s, s.store, mode, slowly(capacity))
			var took stopwatch
			g.took = took.add
			done := make(chan struct{})
			var wg sync.WaitGroup
			late := lateness(200, 100*time.Millisecond, done, &wg)
			wait := g.callers(200, 100*time.Millisecond, "k", done)
			redistest.Wait(t, "the callers to get going", func() bool { return g.seen.Load() > 400 })
			s.server.Kill()
			time.Sleep(time.Second)
			during := g.degraded.Load()
			s.server.Restart(t)
			g.comesBack("k")
			time.Sleep(300 * time.Millisecond)
			close(done)
			admitted := wait()
			wg.Wait()
			if most := deadline + 20*time.Millisecond + late.most(0); took.most(1) > most {
				t.Errorf("99.9%% of %d decisions took up to %v, want %v; timers were up to %v late", len(took.times), took.most(1), most, late.most(0))
			}
			t.Logf("99.9%% of %d decisions took up to %v; 99.9%% of timers were up to %v late", len(took.times), took.most(1), late.most(1))
			if during < 500 {
				t.Errorf("%d decisions were degraded: the callers were not many", during)
			}
			bound := map[string]int{"local": 2 * capacity, "open": capacity + int(g.degraded.Load()), "closed": capacity}[mode]
			if admitted > bound || admitted == 0 {
				t.Errorf("%d requests were admitted, want some and at most %d", admitted, bound)
			}
			if n := used(t, s.direct, mode, "k", slowly(capacity)); n > capacity {
				t.Errorf("Redis holds %d requests against the key", n)
			}
			s.log.wantTurns(t, 4)
		})
	}
}
