package core_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

// bound is how many decisions of a process may wait for a store.
const bound = 4096

// slowly is a healthy store that takes its time.
func slowly(context.Context) error {
	time.Sleep(20 * time.Millisecond)
	return nil
}

// checkAtOnce lets n callers check r at once, and returns how many are admitted.
func checkAtOnce(t *testing.T, l *core.Limiter, n int, r *http.Request) int {
	t.Helper()
	var callers sync.WaitGroup
	var admitted, failed atomic.Int64
	for range n {
		callers.Go(func() {
			switch d, err := l.Check(r); {
			case err != nil:
				failed.Add(1)
			case d.Allowed:
				admitted.Add(1)
			}
		})
	}
	callers.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests were not decided", failed.Load(), n)
	}
	return int(admitted.Load())
}

// A client that floods a healthy store is admitted at most as often as the limits in this process allow. Other clients get no
// 503.
func TestOverloadIsDecidedByLocalLimits(t *testing.T) {
	for name, mode := range map[string]core.FailureMode{"local": core.FailLocal, "open": core.FailOpen, "closed": core.FailClosed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, s := keepJournal(t), &faulty{fault: slowly}
				rule := perHour("r", 100)
				rule.OnFailure = mode
				l := withStore(s, []core.Rule{rule})
				if got := checkAtOnce(t, l, 1000, get("/")); got != 100 {
					t.Fatalf("%d requests below the bound were admitted, want 100", got)
				}
				if h := l.StoreHealth(); h != (core.Health{}) || log.String() != "" {
					t.Fatalf("got %+v and the log %q below the bound", h, log)
				}
				begun := time.Now()
				const flood = 2 * bound
				for range 3 {
					got := checkAtOnce(t, l, flood, get("/"))
					if want := 100; got != want && time.Since(begun) < time.Second || got > want {
						t.Errorf("%d requests of a denied client were admitted, want the %d of the fallback", got, want)
					}
					time.Sleep(time.Second)
				}
				h := l.StoreHealth()
				if want := uint64(3 * (flood - bound)); h.Overloads != want || h.OverloadedAt.Before(begun.Add(2*time.Second)) {
					t.Errorf("got %+v, want %d requests, the last of them at the last flood", h, want)
				}
				if h.Down || h.Err != nil || h.Calls != 0 || !h.Since.IsZero() {
					t.Errorf("got %+v: an overload is no outage", h)
				}
				wantLines(t, log.String(), "level=WARN msg=\"spillgate: too many requests for the store at once")
				time.Sleep(10 * time.Second)
				checkAtOnce(t, l, flood, get("/"))
				if wantLines(t, log.String(), "level=WARN", "level=WARN"); s.calls.Load() != 1000+4*bound {
					t.Errorf("%d calls, want 4,096 of each flood", s.calls.Load())
				}
			})
		})
	}
}

// In an overload all claims of a request are decided together, whatever the modes of their rules.
func TestOverloadWithMixedModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &faulty{fault: slowly}
		rules := []core.Rule{mode("open", core.FailOpen, 5), mode("closed", core.FailClosed, 4), mode("local", core.FailLocal, 3)}
		l := withStore(s, rules)
		if got := checkAtOnce(t, l, bound+100, get("/")); got != 3+3 {
			t.Errorf("%d requests were admitted, want 3 by the store and 3 by the fallback", got)
		}
	})
}

// Costs that the fallback holds in an overload are settled in the fallback, even after the overload.
func TestHoldOfAnOverloadIsSettledInTheFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fallback := &faulty{fault: slowly}, new(faulty)
		rule := perHour("r", 5)
		rule.OnFailure = core.FailClosed
		l := withStore(s, []core.Rule{rule}, core.WithFallback(fallback))
		var callers sync.WaitGroup
		for range bound {
			callers.Go(func() { l.Check(get("/")) })
		}
		synctest.Wait()
		d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "held", Cost: 3, Hold: true})
		wantError(t, d.Degraded, core.ErrUnavailable, "too many calls")
		if err != nil || !d.Allowed || fallback.calls.Load() != 1 {
			t.Fatalf("got %+v, %v after %d calls of the fallback", d, err, fallback.calls.Load())
		}
		callers.Wait()
		calls := s.calls.Load()
		if err := l.Settle(t.Context(), d, "r", 1); err != nil || fallback.calls.Load() != 2 || s.calls.Load() != calls {
			t.Errorf("%v after %d calls of the fallback and %d of the store", err, fallback.calls.Load(), s.calls.Load()-calls)
		}
		peek := core.Claim{Rule: "r", Key: "held", Limits: rule.Limits, Peek: true}
		if results, err := fallback.memory.Take(t.Context(), []core.Claim{peek}, nil); err != nil || results[0].Remaining != 4 {
			t.Errorf("got %+v, %v, want 1 of 5 charged in the fallback", results, err)
		}
	})
}

// A fallback other than a MemoryStore can have too many calls in flight, too.
func TestOverloadOfBothStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := withStore(&faulty{fault: slowly}, []core.Rule{mode("r", core.FailOpen, 5)}, core.WithFallback(&faulty{fault: slowly}))
		var callers sync.WaitGroup
		for range 2 * bound {
			callers.Go(func() { l.Check(get("/")) })
		}
		synctest.Wait()
		_, err := l.Check(get("/"))
		wantError(t, err, core.ErrUnavailable, "fallback: too many calls")
		callers.Wait()
	})
}

// A flood does not delay settlements: otherwise, failed logins would be free during a flood.
func TestSettlementsAreMadeDuringAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(faulty)
		login := perHour("login", 300)
		login.OnFailure = core.FailClosed
		l := withStore(s, []core.Rule{login})
		var held []core.Decision
		for range 200 {
			d, err := l.Take(t.Context(), core.Claim{Rule: "login", Key: "failing", Hold: true})
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			held = append(held, d)
		}
		s.fault = slowly
		var callers sync.WaitGroup
		for range bound {
			callers.Go(func() { l.Check(get("/")) })
		}
		synctest.Wait()
		for _, d := range held {
			callers.Go(func() {
				if err := l.Renew(t.Context(), d); err != nil {
					t.Errorf("renew: %v", err)
				}
				if err := l.Settle(t.Context(), d, "login", 1); err != nil {
					t.Errorf("settle: %v", err)
				}
			})
		}
		callers.Go(func() {
			if err := l.Reset(t.Context(), "login", "other"); err != nil {
				t.Errorf("reset: %v", err)
			}
		})
		callers.Wait()
		peek := core.Claim{Rule: "login", Key: "failing", Limits: login.Limits, Peek: true}
		results, err := s.memory.Take(t.Context(), []core.Claim{peek}, nil)
		if err != nil || results[0].Remaining != 100 {
			t.Errorf("got %+v, %v, want 200 of 300 charged", results, err)
		}
	})
}

// Timeouts of another rule open the breaker. An open breaker still passes settlements to the store.
func TestSettlementsPassAnOpenBreaker(t *testing.T) {
	var late atomic.Bool
	s := &faulty{fault: func(ctx context.Context) error {
		if late.Load() {
			return hang(ctx)
		}
		return nil
	}}
	synctest.Test(t, func(t *testing.T) {
		login := perHour("login", 300)
		l := withStore(s, []core.Rule{login, perHour("other", 5)})
		var held []core.Decision
		for range 200 {
			d, err := l.Take(t.Context(), core.Claim{Rule: "login", Key: "failing", Hold: true})
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			held = append(held, d)
		}
		late.Store(true)
		for range 30 {
			must.Get(l.Take(t.Context(), core.Claim{Rule: "other", Key: "k"}))(t)
		}
		if late.Store(false); !l.StoreHealth().Down {
			t.Error("the breaker is closed after 30 late calls")
		}
		for _, d := range held {
			if err := l.Settle(t.Context(), d, "login", 1); err != nil {
				t.Errorf("settle: %v", err)
			}
		}
		if !l.StoreHealth().Down {
			t.Error("settlements have closed the breaker")
		}
		if err := l.Reset(t.Context(), "other", "k"); err != nil {
			t.Errorf("reset: %v", err)
		}
		peek := core.Claim{Rule: "login", Key: "failing", Limits: login.Limits, Peek: true}
		if results, err := s.memory.Take(t.Context(), []core.Claim{peek}, nil); err != nil || results[0].Remaining != 100 {
			t.Errorf("got %+v, %v, want 200 of 300 charged", results, err)
		}
	})
}
