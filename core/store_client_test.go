package core_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestStoreIsCalledInTheGoroutineOfTheRequest(t *testing.T) {
	var stack []byte
	s := &faulty{fault: func(context.Context) error {
		stack = debug.Stack()
		return nil
	}}
	must.Get(withStore(s, []core.Rule{perHour("r", 5)}).Check(get("/")))(t)
	expect.True(t, bytes.Contains(stack, []byte("core.(*Limiter).Check(")), "the store was called from:\n%s", stack)
}

// contextsOf returns the contexts of n calls, a pause apart.
func contextsOf(l *core.Limiter, s *faulty, n int, pause time.Duration) (seen []context.Context) {
	s.fault = func(ctx context.Context) error {
		seen = append(seen, ctx)
		return nil
	}
	for i := range n {
		l.Check(get("/").WithContext(context.WithValue(context.Background(), word{}, i)))
		time.Sleep(pause)
	}
	return seen
}

func TestCallsThatBeginTogetherShareTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(faulty)
		l := withStore(s, []core.Rule{perHour("r", 1000)}, core.WithTimeout(64*time.Millisecond))
		begun := time.Now()
		seen := contextsOf(l, s, 5, 500*time.Microsecond)
		for i, want := range []time.Duration{64000, 64000, 64000, 65500, 65500} { // microseconds after begun
			deadline, ok := seen[i].Deadline()
			if got := deadline.Sub(begun); !ok || got != want*time.Microsecond {
				t.Errorf("call %d, %vµs later: its deadline is %v after the first call, want %vµs", i, i*500, got, want)
			}
			expect.Equal(t, seen[i].Done() == seen[0].Done(), i < 3, "call %d shares the channel of the first", i)
			got := seen[i].Value(word{})
			expect.True(t, got == i, "call %d has value %v of its request", i, got)
			expect.Equal(t, seen[i].Err(), nil, "call %d: its context ended with the call", i)
		}
		time.Sleep(time.Until(begun.Add(64 * time.Millisecond)))
		synctest.Wait()
		expect.ErrorIs(t, seen[0].Err(), context.DeadlineExceeded, "at the deadline")
		expect.NoError(t, seen[3].Err(), "the call ended before the other calls' deadline")
	})
}

// A context that is derived from a call's context must not start a goroutine.
func TestDerivedContextsTakeNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(faulty)
		client, hangUp := context.WithCancel(context.Background())
		var derived context.Context
		s.fault = func(ctx context.Context) error {
			before := runtime.NumGoroutine()
			var cancel context.CancelFunc
			derived, cancel = context.WithTimeout(ctx, time.Hour)
			_ = cancel // the deadline of the call is to end it
			n := runtime.NumGoroutine()
			expect.AtMost(t, n, before, "%d goroutines more", n-before)
			return nil
		}
		withStore(s, []core.Rule{perHour("r", 5)}).Check(get("/").WithContext(client))
		hangUp()
		synctest.Wait()
		expect.Equal(t, derived.Err(), nil, "a client that hung up ended the request")
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		expect.ErrorIs(t, derived.Err(), context.DeadlineExceeded, "at the deadline of the call")
	})
}

func TestFailuresOfTheStore(t *testing.T) {
	for why, row := range map[string]struct {
		fault func(context.Context) error
		want  error
	}{
		"is unreachable": {unreachable, core.ErrUnavailable},
		"hangs":          {hang, core.ErrUnavailable},
		"panics":         {func(context.Context) error { panic("ouch") }, core.ErrInvalid},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := withStore(&faulty{fault: row.fault}, []core.Rule{mode("r", core.FailClosed, 1000)})
			expect.ErrorIs(t, expect.ErrorOf(l.Check(get("/"))), row.want, "a store that %s", why)
			h := l.StoreHealth()
			expect.Equal(t, h.Calls, 0, "a store that %s leaves calls in flight", why)
			expect.Equal(t, h.Err != nil, !errors.Is(row.want, core.ErrInvalid), "a store that %s has failed: %v", why, h.Err)
		})
	}
}

// A remembering store decides some keys locally.
type remembering struct {
	*faulty
	local func(key string) bool
}

func (s *remembering) TakeLocal(claims []core.Claim, dst []core.Result) ([]core.Result, bool) {
	if !s.local(claims[0].Key) {
		return dst, false
	}
	return append(dst, core.Result{Rule: "r", Limit: claims[0].Limits[0], RetryAfter: time.Second, At: time.Unix(1, 0)}), true
}

func TestLocalDecisionsSayNothingAboutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(recorder)
		s := &remembering{&faulty{fault: unreachable}, func(key string) bool { return key == "known" }}
		l := withStore(s, []core.Rule{mode("r", core.FailOpen, 5)}, core.WithObserver(seen.observe))
		take := func(key string) core.Decision {
			t.Helper()
			d := must.Get(l.Take(t.Context(), core.Claim{Rule: "r", Key: key}))(t)
			return d
		}
		for range 4 {
			for range 100 {
				if d := take("known"); d.Allowed || d.Degraded != nil || d.Results[0].RetryAfter != time.Second {
					t.Fatalf("got %+v, want what the store remembers", d)
				}
			}
			take("other")
		}
		h := l.StoreHealth()
		must.True(t, !h.Down, "got %+v after 4 failures", h)
		take("other")
		if h := l.StoreHealth(); !h.Down || s.calls.Load() != 5 {
			t.Errorf("got %+v after 5 failures of %d calls; local decisions must not count as successes", h, s.calls.Load())
		}
		d := take("known")
		expect.True(t, !d.Allowed && d.Degraded == nil, "got %+v while the store is down, want the remembered denial", d)
		for _, o := range seen.seen {
			expect.True(t, o.Claims[0].Key != "known" || o.Store == 0, "the store was not asked, but took %v", o.Store)
		}
	})
}

func TestLocalDecisionsAreChecked(t *testing.T) {
	s := &remembering{new(faulty), func(string) bool { panic("ouch") }}
	l := withStore(s, []core.Rule{mode("r", core.FailOpen, 5)})
	_, err := l.Check(get("/"))
	wantError(t, err, core.ErrInvalid, "the store panicked: ouch")
	s = &remembering{new(faulty), func(string) bool { return true }}
	rule := mode("r", core.FailClosed, 5)
	rule.Limits = append(rule.Limits, core.PerDay(9))
	rule.Name = "both"
	_, err = withStore(s, []core.Rule{rule}).Check(get("/"))
	wantError(t, err, core.ErrUnavailable, "the store returned 1 results for 2 limits")
}
