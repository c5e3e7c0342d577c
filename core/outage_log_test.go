package core_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

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
				log, s := keepJournal(t), &faulty{fault: refuse}
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
			for _, s.fault = range []func(context.Context) error{refuse, nil} {
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
	l := withStore(&faulty{fault: refuse}, []core.Rule{mode("r", core.FailOpen, 5)},
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
				return errRefused
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
