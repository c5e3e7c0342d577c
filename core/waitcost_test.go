package core_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// TestWaitingRequestIsSmall checks that a request that waits has no goroutine but its own, and takes at most 4 KB more
// memory than an admitted request in a handler.
func TestWaitingRequestIsSmall(t *testing.T) {
	const n = 1000
	memory := func(waits bool) int64 {
		l := core.Must(core.New([]core.Rule{waiting("1000000/s", time.Hour)}))
		if waits {
			if err := l.Ban(t.Context(), "r", "const:all", 50*time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var handled atomic.Int64
		var all sync.WaitGroup
		before, goroutines := inUse(), runtime.NumGoroutine()
		for range n {
			all.Go(func() {
				g, err := l.Guard(ctx, get("/"), nil)
				defer g.End()
				if err == nil {
					handled.Add(1)
					<-ctx.Done()
				}
			})
		}
		for int(handled.Load())+l.StoreHealth().Waiting < n {
			runtime.Gosched()
		}
		if got := runtime.NumGoroutine() - goroutines; got != n || waits != (handled.Load() == 0) {
			t.Errorf("%d goroutines for %d requests, %d in the handler", got, n, handled.Load())
		}
		after := inUse()
		cancel()
		all.Wait()
		return after - before
	}
	handled, waiting := memory(false), memory(true)
	if more := (waiting - handled) / n; more > 4<<10 {
		t.Errorf("a waiting request takes %d bytes more than one in a handler, want at most 4096", more)
	}
}

// inUse returns the bytes of the heap and of stacks.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestAllocationsOfAWait checks what a request that sleeps until its turn allocates more than one that need not: a timer.
func TestAllocationsOfAWait(t *testing.T) {
	allocations := func(burst int) float64 {
		l := core.Must(core.New([]core.Rule{{Name: "r", Limits: []core.Limit{core.PerSecond(10_000).WithBurst(burst)}, MaxWait: time.Hour}}))
		return testing.AllocsPerRun(200, func() {
			if d, err := l.Wait(t.Context(), job); err != nil || !d.Allowed {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
	if without, with := allocations(1_000_000), allocations(1); with > without+3 {
		t.Errorf("%v allocations for a request that waits, %v for one that does not", with, without)
	}
}
