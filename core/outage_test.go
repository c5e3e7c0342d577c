package core_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestOutageFromBeginningToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := keepJournal(t)
		s := new(faulty)
		l := withStore(s, []core.Rule{perHour("r", 1_000_000)})
		check := func(n int) int { return degradedOf(t, l, n) }
		check(10)
		synctest.Wait()
		if l.StoreHealth() != (core.Health{}) || log.String() != "" {
			t.Fatalf("got %+v and log %q from a healthy store", l.StoreHealth(), log)
		}
		s.fault = refuse
		time.Sleep(time.Second)
		began := time.Now()
		if got := check(100); got != 100 || s.calls.Load() != 15 {
			t.Errorf("got %d degraded decisions and %d calls, want 100 and 5 more than 10", got, s.calls.Load())
		}
		if h := l.StoreHealth(); !h.Down || !h.Since.Equal(began) || !errors.Is(h.Err, errRefused) {
			t.Errorf("got %+v, want open since %v", h, began)
		}
		for range 10 { // each time one probe
			time.Sleep(time.Second)
			check(20)
		}
		if got := s.calls.Load(); got != 25 {
			t.Errorf("got %d calls after 10 pauses, want one each", got)
		}
		s.fault = nil
		time.Sleep(time.Second)
		if got := check(100); got != 0 {
			t.Errorf("got %d degraded decisions after the store came back", got)
		}
		synctest.Wait()
		if h := l.StoreHealth(); h.Down || h.Calls != 0 || !h.Since.Equal(time.Now()) {
			t.Errorf("got %+v, want closed since now", h)
		}
		wantLines(t, log.String(), "level=WARN msg=\"spillgate: the store is unavailable", "level=INFO msg=\"spillgate: the store is back\"")
	})
}

// A request that no rule asks anything of needs no store.
func TestOutageLeavesRequestsWithoutClaimsAlone(t *testing.T) {
	s := &faulty{fault: refuse}
	free := perHour("free", 1)
	free.OnFailure, free.Cost = core.FailClosed, func(*http.Request) int { return 0 }
	l := withStore(s, []core.Rule{free})
	if got := degradedOf(t, l, 100); got != 0 || s.calls.Load() != 0 || l.StoreHealth() != (core.Health{}) {
		t.Errorf("%d of 100 were degraded, %d calls of the store, which is %+v", got, s.calls.Load(), l.StoreHealth())
	}
}

// degradedOf checks n requests, which must be admitted, and returns how many were decided without the store.
func degradedOf(t *testing.T, l *core.Limiter, n int) (degraded int) {
	t.Helper()
	for range n {
		d, err := l.Check(get("/"))
		if err != nil || !d.Allowed {
			t.Fatalf("got %+v, %v", d, err)
		}
		if d.Degraded != nil {
			degraded++
		}
	}
	return degraded
}

// wantLines checks that log has these lines and no other.
func wantLines(t *testing.T, log string, parts ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if len(lines) != len(parts) {
		t.Fatalf("got %d lines, want one per transition, %d:\n%s", len(lines), len(parts), log)
	}
	for i, part := range parts {
		if !strings.Contains(lines[i], part) {
			t.Errorf("got line %q, want it to say %q", lines[i], part)
		}
	}
}

// herd lets 500 goroutines check 30 requests each, 30ms apart, and returns the longest decision.
func herd(t *testing.T, l *core.Limiter) time.Duration {
	var longest atomic.Int64
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			for range 30 {
				start := time.Now()
				if _, err := l.Check(get("/")); err != nil {
					t.Error(err)
				}
				took := int64(time.Since(start))
				for old := longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
				}
				time.Sleep(30 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	return time.Duration(longest.Load())
}

func TestManyCallersOfAFailedStore(t *testing.T) {
	tests := []struct {
		why   string
		fault func(context.Context) error
		calls int64 // at most
	}{
		{"it refuses: those under way at the fifth failure, then a probe per pause", refuse, 5 + 95},
		{"it hangs: those that came before the first deadline, then probes", hang, 500 + 20},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := keepJournal(t)
				s := &faulty{fault: tt.fault}
				l := withStore(s, []core.Rule{perHour("r", 100)})
				if longest := herd(t, l); longest > 50*time.Millisecond {
					t.Errorf("a decision took %v, want at most the deadline", longest)
				}
				if got := s.calls.Load(); got > tt.calls {
					t.Errorf("got %d calls for 15,000 requests, want at most %d", got, tt.calls)
				}
				l.Check(get("/")) // a probe, if the last requests came after a pause
				synctest.Wait()
				if h := l.StoreHealth(); !h.Down || h.Calls != 0 {
					t.Errorf("got %+v, want open, and no call under way", h)
				}
				wantLines(t, log.String(), "level=WARN")
			})
		})
	}
}

func TestManyCallersOfAStoreThatRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &faulty{fault: refuse}
		l := withStore(s, []core.Rule{perHour("r", 100)})
		for range 10 {
			l.Check(get("/"))
		}
		time.Sleep(time.Second)
		var under, ended atomic.Int64
		s.fault = func(context.Context) error {
			if n, successes := under.Add(1), ended.Load(); successes < 31 && n > successes+1 {
				t.Errorf("%d calls at once after %d successes, want one more than these at most", n, successes)
			}
			time.Sleep(time.Millisecond)
			under.Add(-1)
			ended.Add(1)
			return nil
		}
		herd(t, l)
		if h := l.StoreHealth(); h.Down || s.calls.Load() < 12_000 {
			t.Errorf("got %+v and %d calls, want a store that has recovered and is used", h, s.calls.Load())
		}
	})
}
