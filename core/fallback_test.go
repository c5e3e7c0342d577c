package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestWithFallback(t *testing.T) {
	fallback := new(faulty)
	l := withStore(&faulty{fault: refuse}, []core.Rule{mode("r", core.FailLocal, 5)}, core.WithFallback(fallback))
	if d, err := l.Check(get("/")); err != nil || d.Results[0].Remaining != 4 || fallback.calls.Load() != 1 {
		t.Errorf("got %+v, %v after %d calls of the fallback", d, err, fallback.calls.Load())
	}
	fallback.fault = func(context.Context) error { return errors.New("full disk") }
	d, err := l.Check(get("/"))
	wantError(t, err, core.ErrUnavailable, "full disk")
	if d.Allowed || !errors.Is(err, errRefused) {
		t.Errorf("got %+v, %v; want both causes", d, err)
	}
}

func TestFallbackHasADeadlineToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := withStore(&faulty{fault: hang}, []core.Rule{perHour("r", 5)}, core.WithFallback(&faulty{fault: hang}))
		start := time.Now()
		if _, err := l.Check(get("/")); !errors.Is(err, core.ErrUnavailable) || time.Since(start) > 100*time.Millisecond {
			t.Errorf("got %v after %v, want ErrUnavailable after one deadline for each", err, time.Since(start))
		}
	})
}

func TestPeekWhileDown(t *testing.T) {
	seen := new(recorder)
	l := withStore(&faulty{fault: refuse}, []core.Rule{perHour("r", 5)}, core.WithObserver(seen.observe))
	for range 3 {
		if d, err := l.Peek(get("/")); err != nil || d.Results[0].Remaining != 5 || d.Degraded == nil {
			t.Errorf("got %+v, %v; want a peek at the fallback", d, err)
		}
	}
	d, _ := l.Peek(get("/"))
	if d, _ := l.Check(get("/").WithContext(core.NewContext(t.Context(), d))); d.Results[0].Remaining != 4 {
		t.Errorf("got %+v; want a charge in spite of the peek", d)
	}
	if len(seen.seen) != 1 {
		t.Errorf("observers were called %d times, want once", len(seen.seen))
	}
}

func TestOpenDecisionIsCarried(t *testing.T) {
	s := &faulty{fault: refuse}
	l := withStore(s, []core.Rule{mode("r", core.FailOpen, 5)})
	openBreaker(t, l)
	r, d, err := guard(l, get("/"))
	if err != nil || !d.Allowed || !d.At.IsZero() {
		t.Fatalf("got %+v, %v", d, err)
	}
	s.fault = nil
	calls := s.calls.Load()
	if d, err := l.Check(r); err != nil || d.Results != nil || s.calls.Load() != calls {
		t.Errorf("got %+v, %v; want the first decision", d, err)
	}
}

func TestRefundGoesWhereTheChargeWas(t *testing.T) {
	s, fallback := new(faulty), new(faulty)
	l := withStore(s, []core.Rule{perHour("r", 5)}, core.WithFallback(fallback))
	check := func(want int) core.Decision {
		t.Helper()
		d, err := l.Check(get("/"))
		if err != nil || d.Results[0].Remaining != want {
			t.Errorf("got %+v, %v; want %d left", d, err, want)
		}
		return d
	}
	inStore := check(4)
	s.fault = refuse
	inFallback := check(4)
	if err := l.Refund(t.Context(), inFallback); err != nil {
		t.Error(err)
	}
	check(4) // in the fallback
	wantError(t, l.Refund(t.Context(), inStore), core.ErrUnavailable, "connection refused")
	s.fault = nil
	if err := l.Refund(t.Context(), inStore); err != nil {
		t.Error(err)
	}
	check(3) // in the store: what became of the first refund is unknown, so there is no second
}

func TestRefundOfNothingCallsNoStore(t *testing.T) {
	s := new(faulty)
	l := withStore(s, []core.Rule{perHour("r", 5)})
	peek, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Peek: true})
	denied, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Cost: 6})
	for _, d := range []core.Decision{peek, denied} {
		if err := l.Refund(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	if got := s.calls.Load(); got != 2 {
		t.Errorf("got %d calls, want only the calls of Take", got)
	}
}

func TestResetForgetsTheFallbackToo(t *testing.T) {
	s := new(faulty)
	l := withStore(s, []core.Rule{perHour("r", 5)})
	check := func(fault func(context.Context) error, want int) {
		t.Helper()
		s.fault = fault
		if d, err := l.Check(get("/")); err != nil || d.Results[0].Remaining != want {
			t.Errorf("got %+v, %v; want %d left", d, err, want)
		}
	}
	check(nil, 4)
	check(refuse, 4)
	wantError(t, l.Reset(t.Context(), "r", "k"), core.ErrUnavailable, "connection refused")
	check(refuse, 4) // the fallback was still reset
	check(nil, 3)
	if err := l.Reset(t.Context(), "r", "k"); err != nil {
		t.Error(err)
	}
	check(refuse, 4)
	check(nil, 4)
}

// A store that comes and goes admits, together with the fallback, at most the capacity of both and what both refill.
func TestFlappingStoreGivesNoFreshAllowance(t *testing.T) {
	tests := []struct {
		limit core.Limit
		bound int // of one store, in 30 seconds
	}{
		{core.PerMinute(60).WithBurst(20), 20 + 30},
		{core.PerHour(20), 20},
		{core.PerHour(20).Using(core.FixedWindow), 20},
		{core.PerHour(20).Using(core.SlidingWindow), 20},
		{core.PerHour(20).Using(core.SlidingLog), 20},
	}
	for _, tt := range tests {
		t.Run(tt.limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				s := &faulty{fault: func(context.Context) error {
					if time.Since(start)/(100*time.Millisecond)%2 == 1 {
						return errRefused
					}
					return nil
				}}
				l := withStore(s, []core.Rule{tt.limit.By(keyK)})
				admitted, degraded := 0, 0
				for time.Since(start) < 30*time.Second {
					d, err := l.Check(get("/"))
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed {
						admitted++
					}
					if d.Degraded != nil {
						degraded++
					}
					time.Sleep(5 * time.Millisecond)
				}
				if admitted > 2*tt.bound || admitted < tt.bound {
					t.Errorf("admitted %d, want from %d to %d", admitted, tt.bound, 2*tt.bound)
				}
				if degraded == 0 || degraded == 6000 {
					t.Errorf("%d of 6000 decisions were degraded: the store did not flap", degraded)
				}
			})
		})
	}
}
