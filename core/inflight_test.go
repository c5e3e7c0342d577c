package core_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory("20 at once", nil)
		var now, most atomic.Int64
		var requests sync.WaitGroup
		for range 1000 {
			requests.Go(func() {
				for {
					g, err := l.Guard(context.Background(), get("/"), nil)
					if err != nil {
						t.Error(err)
						return
					}
					if g.Admitted() {
						n := now.Add(1)
						for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
						}
						time.Sleep(10 * time.Millisecond)
						now.Add(-1)
						g.End()
						return
					}
					if wait := g.Decision().Results[0].RetryAfter; wait != time.Second {
						t.Errorf("got a wait of %v, want the hint of 1s", wait)
					}
					g.End()
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		requests.Wait()
		if most.Load() != 20 {
			t.Errorf("%d handlers ran at once, want 20", most.Load())
		}
	})
}

func TestRequestDeniedByAtOnceChargesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory("100/m;fixed-window, 1 at once", nil)
		a, _ := l.Guard(context.Background(), get("/"), nil)
		if handle(l, 0, 200) {
			t.Error("a second request ran beside the first")
		}
		a.End()
		if !handle(l, 0, 200) {
			t.Error("a request was denied after the first had ended")
		}
		d, err := l.Peek(get("/"))
		if err != nil || d.Results[0].Remaining != 98 || !d.Allowed {
			t.Errorf("got %+v, %v; want 2 of 100 used", d, err)
		}
	})
}

// A request that runs for minutes keeps its place.
func TestLongRequestKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory("1 at once", nil)
		g, err := l.Guard(context.Background(), get("/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 180 {
			time.Sleep(time.Second)
			if handle(l, 0, 200) {
				t.Fatal("a second request ran beside the first")
			}
		}
		g.End()
		if !handle(l, 0, 200) {
			t.Error("a request was denied after the first had ended")
		}
	})
}
