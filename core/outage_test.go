package core_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
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
		s.fault = unreachable
		time.Sleep(time.Second)
		began := time.Now()
		if got := check(100); got != 100 || s.calls.Load() != 15 {
			t.Errorf("got %d degraded decisions and %d calls, want 100 and 5 more than 10", got, s.calls.Load())
		}
		if h := l.StoreHealth(); !h.Down || !h.Since.Equal(began) || !errors.Is(h.Err, errUnreachable) {
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

// A request without claims does not need the store.
func TestOutageLeavesRequestsWithoutClaimsAlone(t *testing.T) {
	s := &faulty{fault: unreachable}
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
		{"it is unreachable: the calls in flight at the fifth failure, then a probe per pause", unreachable, 5 + 95},
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
		s := &faulty{fault: unreachable}
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

// A probe whose outcome is lost would keep the breaker open forever.
func TestOutcomeOfAProbeIsNeverLost(t *testing.T) {
	tests := map[string]struct {
		fault func(context.Context) error
		want  error // of the decision under FailClosed
	}{
		"the store panics":                {func(context.Context) error { panic("ouch") }, core.ErrInvalid},
		"the store ends its goroutine":    {func(context.Context) error { runtime.Goexit(); return nil }, core.ErrUnavailable},
		"the store objects to the claims": {func(context.Context) error { return core.ErrInvalid }, core.ErrInvalid},
	}
	for why, tt := range tests {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, s := keepJournal(t), &faulty{fault: unreachable}
				l := withStore(s, []core.Rule{mode("r", core.FailClosed, 1000)})
				for range 10 {
					l.Check(get("/"))
				}
				synctest.Wait()
				s.fault = tt.fault
				for range 3 {
					time.Sleep(time.Second)
					if err := errorOfProbe(l, tt.want); !errors.Is(err, tt.want) {
						t.Errorf("got %v from a probe, want %v", err, tt.want)
					}
				}
				if strings.Contains(log.String(), "is back") {
					t.Errorf("the log says that the store is back, but it has not answered:\n%s", log)
				}
				time.Sleep(time.Second)
				s.fault = nil
				for range 50 {
					if d, err := l.Check(get("/")); err != nil || d.Degraded != nil {
						t.Fatalf("got %v, %v after the store came back", d, err)
					}
				}
				if h := l.StoreHealth(); h.Down || h.Calls > 0 {
					t.Errorf("got %+v after the store came back", h)
				}
			})
		})
	}
}

// errorOfProbe returns the error of a check, or ended if the check ends its goroutine.
func errorOfProbe(l *core.Limiter, ended error) error {
	err := ended
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err = l.Check(get("/"))
	}()
	<-done
	return err
}

// A slowHandler is a log handler that takes longer for a warning than an outage takes, asks for the health of the store and
// panics once.
type slowHandler struct {
	slog.Handler
	limiter *core.Limiter
	panics  atomic.Bool
}

func (h *slowHandler) Handle(ctx context.Context, r slog.Record) error {
	if time.Sleep(time.Second); r.Level == slog.LevelWarn {
		time.Sleep(7 * time.Second)
	}
	h.limiter.StoreHealth()
	if h.panics.CompareAndSwap(true, false) {
		panic("no space left on device")
	}
	return h.Handler.Handle(ctx, r)
}

func TestOutagesAreLoggedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := keepJournal(t)
		s := new(faulty)
		h := &slowHandler{Handler: slog.Default().Handler(), limiter: withStore(s, []core.Rule{perHour("r", 1_000_000)})}
		h.panics.Store(true)
		slog.SetDefault(slog.New(h))
		var wg sync.WaitGroup
		for i := range 5 { // while the first line is being written, the breaker turns again and again
			if i == 4 {
				time.Sleep(time.Minute) // that line is lost by now
			}
			for _, s.fault = range []func(context.Context) error{unreachable, nil} {
				for range 50 {
					wg.Go(func() {
						defer func() { _ = recover() }()
						h.limiter.Check(get("/"))
					})
					synctest.Wait()
				}
				time.Sleep(5 * time.Second) // lines are at most one outage in 10s
			}
		}
		time.Sleep(time.Minute)
		wg.Wait()
		var want []string
		for range 4 {
			want = append(want, "level=INFO", "level=WARN")
		}
		wantLines(t, log.String(), append(want, "level=INFO")...)
	})
}

func TestObserverAndLogSeeTheClientsContext(t *testing.T) {
	var heard any
	l := withStore(&faulty{fault: unreachable}, []core.Rule{mode("r", core.FailOpen, 5)},
		core.WithObserver(func(ctx context.Context, _ *core.Observation) { heard = ctx.Value(word{}) }))
	l.Check(get("/").WithContext(context.WithValue(t.Context(), word{}, "hello")))
	if heard != "hello" {
		t.Errorf("got value %v, want the request's", heard)
	}
}

func TestFlappingStoreIsLoggedOnceInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := keepJournal(t)
		s := new(faulty)
		l := withStore(s, []core.Rule{perHour("r", 1_000_000)})
		begun := time.Now()
		s.fault = func(context.Context) error {
			if time.Since(begun)/time.Second%2 == 0 || time.Since(begun) > 25*time.Second {
				return errUnreachable
			}
			return nil
		}
		down, back := "the store is unavailable", "the store is back"
		for time.Since(begun) < 40*time.Second {
			l.Check(get("/"))
			time.Sleep(10 * time.Millisecond)
		}
		wantLines(t, log.String(), down, back, down, back, down, back, down)
	})
}
