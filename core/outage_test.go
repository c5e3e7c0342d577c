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
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestOutageFromBeginningToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := expect.KeepLog(t)
		s := new(faulty)
		l := withStore(s, []core.Rule{perHour("r", 1_000_000)})
		check := func(n int) int { return degradedOf(t, l, n) }
		check(10)
		synctest.Wait()
		must.True(t, l.StoreHealth() == (core.Health{}) && log.String() == "",
			"got %+v and log %q from a healthy store", l.StoreHealth(), log)
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
			expect.True(t, !l.StoreHealth().Down, "down after a pause, when the next call is allowed")
			check(20)
		}
		expect.Equal(t, s.calls.Load(), 25, "calls after 10 pauses (one each)")
		s.fault = nil
		time.Sleep(time.Second)
		expect.Equal(t, check(100), 0, "degraded decisions after the store came back")
		synctest.Wait()
		h := l.StoreHealth()
		expect.True(t, !h.Down && h.Calls == 0 && h.Since.Equal(time.Now()), "got %+v, want closed since now", h)
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
		must.True(t, err == nil && d.Allowed, "got %+v, %v", d, err)
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
	must.True(t, len(lines) == len(parts), "got %d lines, want one per transition, %d:\n%s", len(lines), len(parts), log)
	for i, part := range parts {
		expect.True(t, strings.Contains(lines[i], part), "got line %q, want it to say %q", lines[i], part)
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
				expect.NoError(t, expect.ErrorOf(l.Check(get("/"))), "Check")
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
	for _, tt := range []struct {
		why   string
		fault func(context.Context) error
		calls int64 // at most
	}{
		{"it is unreachable: the calls in flight at the fifth failure, then a probe per pause", unreachable, 5 + 95},
		{"it hangs: those that came before the first deadline, then probes", hang, 500 + 20},
	} {
		t.Run(tt.why, inBubble(func(t *testing.T) {
			log := expect.KeepLog(t)
			s := &faulty{fault: tt.fault}
			l := withStore(s, []core.Rule{perHour("r", 100)})
			expect.AtMost(t, herd(t, l), 50*time.Millisecond, "a decision (at most the deadline)")
			expect.AtMost(t, s.calls.Load(), tt.calls, "calls for 15,000 requests")
			l.Check(get("/")) // a probe, if the last requests came after a pause
			synctest.Wait()
			h := l.StoreHealth()
			expect.True(t, h.Down && h.Calls == 0, "got %+v, want open, and no call under way", h)
			wantLines(t, log.String(), "level=WARN")
		}))
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
	for why, tt := range map[string]struct {
		fault func(context.Context) error
		want  error // of the decision under FailClosed
	}{
		"the store panics":                {func(context.Context) error { panic("ouch") }, core.ErrInvalid},
		"the store ends its goroutine":    {func(context.Context) error { runtime.Goexit(); return nil }, core.ErrUnavailable},
		"the store objects to the claims": {func(context.Context) error { return core.ErrInvalid }, core.ErrInvalid},
	} {
		t.Run(why, inBubble(func(t *testing.T) {
			log, s := expect.KeepLog(t), &faulty{fault: unreachable}
			l := withStore(s, []core.Rule{mode("r", core.FailClosed, 1000)})
			for range 10 {
				l.Check(get("/"))
			}
			synctest.Wait()
			s.fault = tt.fault
			for range 3 {
				time.Sleep(time.Second)
				expect.ErrorIs(t, errorOfProbe(l, tt.want), tt.want, "from a probe")
			}
			expect.True(t, !strings.Contains(log.String(), "is back"), "the log says that the store is back, but it has not answered:\n%s", log)
			time.Sleep(time.Second)
			s.fault = nil
			for range 50 {
				must.Equal(t, must.Get(l.Check(get("/")))(t).Degraded, nil, "after the store came back")
			}
			h := l.StoreHealth()
			expect.True(t, !h.Down && h.Calls <= 0, "got %+v after the store came back", h)
		}))
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

// A slowHandler is a log handler that takes longer for a warning than an outage takes, asks for the health of the store and panics once.
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
		log := expect.KeepLog(t)
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

func TestFlappingStoreIsLoggedOnceInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := expect.KeepLog(t)
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

func TestOutageOfFallbackIsNotOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := expect.KeepLog(t)
		fallback := &faulty{fault: unreachable}
		l := withStore(&faulty{fault: unreachable}, []core.Rule{perHour("r", 1000)}, core.WithFallback(fallback))
		for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > 5*time.Second {
				fallback.fault = nil
			}
			l.Check(get("/"))
		}
		wantLines(t, log.String(), "the store is unavailable", "the fallback is unavailable", "the fallback is back")
	})
}

// bound is how many decisions of a process may wait for a store.
const bound = 4096

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
	expect.AtMost(t, failed.Load(), 0, "of %d requests were not decided", n)
	return int(admitted.Load())
}

// A client that floods a healthy store is admitted at most as often as the limits in this process allow. Other clients get no 503.
func TestOverloadIsDecidedByLocalLimits(t *testing.T) {
	for name, mode := range map[string]core.FailureMode{"local": core.FailLocal, "open": core.FailOpen, "closed": core.FailClosed} {
		t.Run(name, inBubble(func(t *testing.T) {
			log, s := expect.KeepLog(t), &faulty{fault: slowly}
			rule := perHour("r", 100)
			rule.OnFailure = mode
			l := withStore(s, []core.Rule{rule})
			must.Equal(t, checkAtOnce(t, l, 1000, get("/")), 100, "requests below the bound were admitted")
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
			expect.True(t, !h.Down && h.Err == nil && h.Calls == 0 && h.Since.IsZero(), "got %+v: an overload is no outage", h)
			wantLines(t, log.String(), "level=WARN msg=\"spillgate: too many requests for the store at once")
			time.Sleep(10 * time.Second)
			checkAtOnce(t, l, flood, get("/"))
			wantLines(t, log.String(), "level=WARN", "level=WARN")
			expect.Equal(t, s.calls.Load(), 1000+4*bound, "calls (4,096 of each flood)")
		}))
	}
}

// In an overload all claims of a request are decided together, whatever the modes of their rules.
func TestOverloadWithMixedModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &faulty{fault: slowly}
		rules := []core.Rule{mode("open", core.FailOpen, 5), mode("closed", core.FailClosed, 4), mode("local", core.FailLocal, 3)}
		l := withStore(s, rules)
		expect.Equal(t, checkAtOnce(t, l, bound+100, get("/")), 3+3, "requests admitted (3 by the store and 3 by the fallback)")
	})
}

func holdLogins(t *testing.T, l *core.Limiter) (held []core.Decision) {
	for range 200 {
		d, err := l.Take(t.Context(), core.Claim{Rule: "login", Key: "failing", Hold: true})
		must.True(t, err == nil && d.Allowed, "%v, %v", d, err)
		held = append(held, d)
	}
	return held
}

// A flood does not delay settlements: otherwise, failed logins would be free during a flood.
func TestSettlementsAreMadeDuringAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(faulty)
		login := perHour("login", 300)
		login.OnFailure = core.FailClosed
		l := withStore(s, []core.Rule{login})
		held := holdLogins(t, l)
		s.fault = slowly
		var callers sync.WaitGroup
		for range bound {
			callers.Go(func() { l.Check(get("/")) })
		}
		synctest.Wait()
		for _, d := range held {
			callers.Go(func() {
				expect.NoError(t, l.Renew(t.Context(), d), "renew")
				expect.NoError(t, l.Settle(t.Context(), d, "login", 1), "settle")
			})
		}
		callers.Go(func() { expect.NoError(t, l.Reset(t.Context(), "login", "other"), "reset") })
		callers.Wait()
		peek := core.Claim{Rule: "login", Key: "failing", Limits: login.Limits, Peek: true}
		results := must.Get(s.memory.Take(t.Context(), []core.Claim{peek}, nil))(t)
		expect.Equal(t, results[0].Remaining, 100, "%+v (200 of 300 charged)", results)
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
		held := holdLogins(t, l)
		late.Store(true)
		for range 30 {
			must.Get(l.Take(t.Context(), core.Claim{Rule: "other", Key: "k"}))(t)
		}
		late.Store(false)
		expect.True(t, l.StoreHealth().Down, "the breaker is closed after 30 late calls")
		for _, d := range held {
			expect.NoError(t, l.Settle(t.Context(), d, "login", 1), "settle")
		}
		expect.True(t, l.StoreHealth().Down, "settlements have closed the breaker")
		expect.NoError(t, l.Reset(t.Context(), "other", "k"), "reset")
		peek := core.Claim{Rule: "login", Key: "failing", Limits: login.Limits, Peek: true}
		expect.Equal(t, must.Get(s.memory.Take(t.Context(), []core.Claim{peek}, nil))(t)[0].Remaining, 100, "200 of 300 charged")
	})
}
