package core_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func dry(r core.Rule) core.Rule {
	r.DryRun = true
	return r
}

func TestFailureModes(t *testing.T) {
	local, open, closed := mode("local", core.FailLocal, 5), mode("open", core.FailOpen, 0), mode("closed", core.FailClosed, 5)
	holds := final("open", 0, core.Failures)
	holds.OnFailure = core.FailOpen
	for _, tt := range []struct {
		why     string
		rules   []core.Rule
		closed  bool     // ErrUnavailable
		allowed bool     // else
		results []string // rules that the fallback decided
	}{
		{"local decides from memory", []core.Rule{local}, false, true, []string{"local"}},
		{"and denies from it", []core.Rule{mode("local", core.FailLocal, 0)}, false, false, []string{"local"}},
		{"open admits whatever its limits say", []core.Rule{open}, false, true, nil},
		{"closed denies", []core.Rule{closed}, true, false, nil},
		{"local claims are decided together", []core.Rule{local, mode("none", core.FailLocal, 0)}, false, false, []string{"local", "none"}},
		{"open holds nothing", []core.Rule{holds}, false, true, nil},
		{"open gives no results beside local", []core.Rule{open, local}, false, true, []string{"local"}},
		{"one closed rule denies all", []core.Rule{local, open, closed}, true, false, nil},
		{"in any order", []core.Rule{closed, local, open}, true, false, nil},
		{"a dry run never denies", []core.Rule{dry(closed)}, false, true, nil},
		{"nor beside others", []core.Rule{local, dry(closed)}, false, true, []string{"local"}},
		{"a dry run is evaluated locally", []core.Rule{dry(mode("local", core.FailLocal, 0))}, false, true, []string{"local"}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			seen := new(recorder)
			l := withStore(&faulty{fault: unreachable}, tt.rules, core.WithObserver(seen.observe))
			openBreaker(t, l)
			seen.seen = nil
			d, err := l.Check(get("/"))
			if tt.closed {
				wantError(t, err, core.ErrUnavailable, "connection lost")
			} else if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, r := range d.Results {
				names = append(names, r.Rule)
			}
			expect.True(t, d.Allowed == tt.allowed && slices.Equal(names, tt.results),
				"got %+v, want allowed %v and results of %q", d, tt.allowed, tt.results)
			must.True(t, len(seen.seen) == 1 && seen.seen[0].Allowed == tt.allowed, "observers saw %+v, want the decision once", seen.seen)
			wantError(t, cmp.Or(seen.seen[0].Err, seen.seen[0].Degraded), core.ErrUnavailable, "connection lost")
			if (seen.seen[0].Err != nil) != tt.closed || tt.closed && seen.seen[0].Degraded != nil {
				t.Errorf("observers saw Err %v and Degraded %v, want Err only if nothing was decided", seen.seen[0].Err, seen.seen[0].Degraded)
			}
			expect.True(t, tt.closed || errors.Is(d.Degraded, errUnreachable), "got Degraded %v, want the cause", d.Degraded)
			expect.NoError(t, errors.Join(l.Renew(t.Context(), d), l.Refund(t.Context(), d)), "Renew and Refund of what the fallback has charged")
		})
	}
}

// While the breaker is closed, a failed call does not admit the request of a rule with FailOpen: the client may have caused the failure.
// Nor is a request admitted because the store, which answers again, may not have more calls in flight yet.
func TestFailOpenBeforeTheBreakerOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &faulty{fault: unreachable}
		l := withStore(s, []core.Rule{mode("open", core.FailOpen, 2)})
		for i := range 4 {
			d, err := l.Check(get("/"))
			expect.True(t, err == nil && d.Allowed == (i < 2) && len(d.Results) == 1 && errors.Is(d.Degraded, errUnreachable),
				"call %d: got %+v, %v; want a decision of the process's own limit of 2", i, d, err)
		}
		openBreaker(t, l)
		if d, err := l.Check(get("/")); err != nil || !d.Allowed || d.Results != nil {
			t.Errorf("with an open breaker: got %+v, %v; want a request without a limit", d, err)
		}
		time.Sleep(time.Second)
		s.fault = nil
		if d, err := l.Check(get("/")); err != nil || d.Degraded != nil {
			t.Errorf("the probe: got %+v, %v; want a decision of the store", d, err)
		}
		withheld := 0
		s.fault = func(context.Context) error { // each call is in flight while the next request comes
			if d, err := l.Check(get("/")); err != nil || d.Degraded != nil {
				withheld++
				expect.True(t, err == nil && !d.Allowed && len(d.Results) == 1, "a withheld call: got %+v, %v; want a denial by the process's own limit", d, err)
			}
			return nil
		}
		_, _ = l.Check(get("/"))
		expect.Equal(t, withheld, 1, "withheld calls")
	})
}

type knowingStore struct {
	faulty
	usedUp map[string]bool
}

func (s *knowingStore) Denied(c *core.Claim, dst []core.Result) ([]core.Result, bool) {
	if !s.usedUp[c.Key] {
		return dst, false
	}
	return append(dst, core.Result{Rule: c.Rule, Limit: c.Limits[0], RetryAfter: time.Minute}), true
}

// Every mode denies a request if the store remembers that the limit is used up. The denial charges nothing.
func TestKnownDenialHoldsThroughAnOutage(t *testing.T) {
	for _, m := range []core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed} {
		s := &knowingStore{faulty: faulty{fault: unreachable}, usedUp: map[string]bool{"used up": true}}
		l := withStore(s, []core.Rule{mode("a", m, 5), mode("b", core.FailLocal, 5), dry(mode("dry", m, 5))})
		for range 10 { // with a closed breaker and with an open one
			d, err := l.Take(t.Context(), core.Claim{Rule: "b", Key: "other"}, core.Claim{Rule: "a", Key: "used up", Cost: 3})
			must.True(t, err == nil && !d.Allowed && len(d.Results) == 1 && d.Results[0].Rule == "a" && d.Degraded != nil,
				"mode %v: got %+v, %v; want a denial by rule a", m, d, err)
		}
		d, err := l.Take(t.Context(), core.Claim{Rule: "b", Key: "other"})
		expect.True(t, err == nil && d.Results[0].Remaining == 4, "mode %v: got %+v, %v; want nothing charged before", m, d, err)
		d, err = l.Take(t.Context(), core.Claim{Rule: "dry", Key: "used up"})
		expect.True(t, err == nil && d.Allowed, "mode %v: got %+v, %v; want that a dry run denies nothing", m, d, err)
	}
}

func TestFailClosedChargesNothing(t *testing.T) {
	s := &faulty{fault: unreachable}
	fallback := new(core.MemoryStore)
	l := withStore(s, []core.Rule{mode("local", core.FailLocal, 5), mode("closed", core.FailClosed, 5)}, core.WithFallback(fallback))
	_, err := l.Check(get("/"))
	must.True(t, errors.Is(err, core.ErrUnavailable), "%v", err)
	s.fault = nil
	for _, store := range []core.Store{s, fallback} {
		results, err := store.Take(t.Context(), []core.Claim{{Rule: "local", Key: "k", Limits: []core.Limit{core.PerHour(5)}, Peek: true}}, nil)
		expect.True(t, err == nil && results[0].Remaining == 5, "%T: got %+v, %v; want nothing charged", store, results, err)
	}
}

func TestDeadline(t *testing.T) {
	for _, tt := range []struct {
		why   string
		fault func(context.Context) error
		opts  []core.Option
		want  time.Duration
	}{
		{"a store that hangs", hang, nil, 50 * time.Millisecond},
		{"another timeout", hang, []core.Option{core.WithTimeout(20 * time.Millisecond)}, 20 * time.Millisecond},
		{"a fast failure does not wait", unreachable, nil, 0},
	} {
		t.Run(tt.why, inBubble(func(t *testing.T) {
			l := withStore(&faulty{fault: tt.fault}, []core.Rule{perHour("r", 5)}, tt.opts...)
			start := time.Now()
			d, err := l.Check(get("/"))
			expect.Equal(t, time.Since(start), tt.want, "time.Since(start)")
			expect.True(t, err == nil && d.Results[0].Remaining == 4 && errors.Is(d.Degraded, core.ErrUnavailable),
				"got %+v, %v; want a decision of the fallback", d, err)
		}))
	}
}

func TestFastStoreIsNeverLate(t *testing.T) {
	l := withStore(new(faulty), []core.Rule{perHour("r", 1_000_000)})
	for range 5000 {
		d, err := l.Check(get("/"))
		must.True(t, err == nil && d.Degraded == nil, "got %+v, %v; want the answer of the store", d, err)
	}
}

func TestClientThatHangsUpIsCharged(t *testing.T) {
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), word{}, "hello"))
	cancel()
	s := &faulty{fault: func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok || ctx.Value(word{}) != "hello" {
			t.Error("the context of the store lacks a deadline or the values of the request")
		}
		return ctx.Err()
	}}
	for _, store := range []core.Store{s, new(core.MemoryStore)} {
		l := withStore(store, []core.Rule{mode("r", core.FailOpen, 5)})
		d, err := l.Check(get("/").WithContext(ctx))
		expect.True(t, err == nil && d.Degraded == nil && len(d.Results) == 1 && d.Results[0].Remaining == 4,
			"%T: got %+v, %v; want a charge", store, d, err)
		expect.NoError(t, l.Refund(ctx, d), "Refund")
		expect.NoError(t, l.Reset(ctx, "r", "k"), "Reset")
	}
}

type oddStore struct {
	core.MemoryStore
	take func(dst []core.Result) []core.Result
}

func (s *oddStore) Take(_ context.Context, _ []core.Claim, dst []core.Result) ([]core.Result, error) {
	return s.take(dst), nil
}

func TestResultsOfTheStoreAreChecked(t *testing.T) {
	fine := core.Result{Rule: "r", Allowed: true}
	for _, tt := range []struct {
		why  string
		take func(dst []core.Result) []core.Result
		kind error // of the decision under FailClosed
		open bool  // whether FailOpen may admit
	}{
		{"no results", func([]core.Result) []core.Result { return nil }, core.ErrUnavailable, true},
		{"too few results", func(dst []core.Result) []core.Result { return append(dst, fine) }, core.ErrUnavailable, true},
		{"too many results", func(dst []core.Result) []core.Result { return append(dst, fine, fine, fine) }, core.ErrUnavailable, true},
		{"a panic is a fault of the program", func([]core.Result) []core.Result { panic("ouch") }, core.ErrInvalid, false},
	} {
		t.Run(tt.why, func(t *testing.T) {
			for m, admits := range map[core.FailureMode]bool{core.FailClosed: false, core.FailOpen: tt.open} {
				rule := mode("r", m, 5)
				rule.Limits = append(rule.Limits, core.PerDay(9))
				d, err := withStore(&oddStore{take: tt.take}, []core.Rule{rule}).Check(get("/"))
				if d.Allowed != admits || admits != (err == nil) || err != nil && !errors.Is(err, tt.kind) {
					t.Errorf("mode %v: got %+v, %v", m, d, err)
				}
			}
		})
	}
}

func TestInvalidClaimsAreNotAFailureOfTheStore(t *testing.T) {
	seen := new(recorder)
	bad := errors.Join(errors.New("limit 1"), core.ErrInvalid)
	s := &faulty{fault: func(context.Context) error { return bad }}
	l := withStore(s, []core.Rule{mode("open", core.FailOpen, 5)}, core.WithObserver(seen.observe))
	for range 20 {
		if d, err := l.Check(get("/")); d.Allowed || !errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrUnavailable) {
			t.Fatalf("got %+v, %v; want ErrInvalid", d, err)
		}
	}
	expect.True(t, len(seen.seen) == 20 && !seen.seen[0].Allowed && errors.Is(seen.seen[0].Err, core.ErrInvalid),
		"observers saw %+v, want each failure", seen.seen)
	if err := l.Reset(t.Context(), "open", "k"); !errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrUnavailable) {
		t.Errorf("got %v from Reset, want ErrInvalid alone", err)
	}
	s.fault = func(context.Context) error { return breaker.ErrTooMany }
	for range 20 {
		l.Check(get("/"))
	}
	if h := l.StoreHealth(); h.Down || h.Err != nil || s.calls.Load() != 41 {
		t.Errorf("got %+v after %d calls, want a healthy store", h, s.calls.Load())
	}
}

func TestWithFallback(t *testing.T) {
	fallback := new(faulty)
	l := withStore(&faulty{fault: unreachable}, []core.Rule{mode("r", core.FailLocal, 5)}, core.WithFallback(fallback))
	if d, err := l.Check(get("/")); err != nil || d.Results[0].Remaining != 4 || fallback.calls.Load() != 1 {
		t.Errorf("got %+v, %v after %d calls of the fallback", d, err, fallback.calls.Load())
	}
	fallback.fault = func(context.Context) error { return errors.New("full disk") }
	d, err := l.Check(get("/"))
	wantError(t, err, core.ErrUnavailable, "full disk")
	expect.True(t, !d.Allowed && errors.Is(err, errUnreachable), "got %+v, %v; want both causes", d, err)
}

func TestFallbackChargesNothingAhead(t *testing.T) {
	rule, store, fallback := mode("r", core.FailLocal, 5), new(faulty), new(faulty)
	rule.Lease = time.Second
	l := withStore(store, []core.Rule{rule}, core.WithFallback(fallback))
	l.Check(get("/"))
	expect.Equal(t, store.leases.Load(), 1, "claims with a lease for the store")
	store.fault = unreachable
	l.Check(get("/"))
	expect.Equal(t, fallback.calls.Load(), 1, "calls of the fallback")
	expect.Equal(t, fallback.leases.Load(), 0, "claims with a lease for the fallback")
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
	l := withStore(&faulty{fault: unreachable}, []core.Rule{perHour("r", 5)}, core.WithObserver(seen.observe))
	for range 3 {
		if d, err := l.Peek(get("/")); err != nil || d.Results[0].Remaining != 5 || d.Degraded == nil {
			t.Errorf("got %+v, %v; want a peek at the fallback", d, err)
		}
	}
	d, _ := l.Peek(get("/"))
	d, _ = l.Check(get("/").WithContext(core.NewContext(t.Context(), d)))
	expect.True(t, d.Results[0].Remaining == 4, "got %+v; want a charge in spite of the peek", d)
	expect.Equal(t, len(seen.seen), 1, "how often observers were called")
}

func TestRefundGoesWhereTheChargeWas(t *testing.T) {
	s, fallback := new(faulty), new(faulty)
	l := withStore(s, []core.Rule{perHour("r", 5)}, core.WithFallback(fallback))
	check := func(want int) core.Decision {
		t.Helper()
		d, err := l.Check(get("/"))
		expect.True(t, err == nil && d.Results[0].Remaining == want, "got %+v, %v; want %d left", d, err, want)
		return d
	}
	inStore := check(4)
	s.fault = unreachable
	inFallback := check(4)
	expect.NoError(t, l.Refund(t.Context(), inFallback), "Refund")
	check(4) // in the fallback
	wantError(t, l.Refund(t.Context(), inStore), core.ErrUnavailable, "connection lost")
	s.fault = nil
	expect.NoError(t, l.Refund(t.Context(), inStore), "Refund")
	check(3) // in the store: what became of the first refund is unknown, so there is no second
}

func TestRefundOfNothingCallsNoStore(t *testing.T) {
	s := new(faulty)
	l := withStore(s, []core.Rule{perHour("r", 5)})
	peek, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Peek: true})
	denied, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Cost: 6})
	for _, d := range []core.Decision{peek, denied} {
		expect.NoError(t, l.Refund(t.Context(), d), "Refund")
	}
	expect.Equal(t, s.calls.Load(), 2, "calls (only the calls of Take)")
}

func TestResetForgetsTheFallbackToo(t *testing.T) {
	s := new(faulty)
	l := withStore(s, []core.Rule{perHour("r", 5)})
	check := func(fault func(context.Context) error, want int) {
		t.Helper()
		s.fault = fault
		d, err := l.Check(get("/"))
		expect.True(t, err == nil && d.Results[0].Remaining == want, "got %+v, %v; want %d left", d, err, want)
	}
	check(nil, 4)
	check(unreachable, 4)
	wantError(t, l.Reset(t.Context(), "r", "k"), core.ErrUnavailable, "connection lost")
	check(unreachable, 4) // the fallback was still reset
	check(nil, 3)
	expect.NoError(t, l.Reset(t.Context(), "r", "k"), "Reset")
	check(unreachable, 4)
	check(nil, 4)
}

// A flapping store and its fallback together admit at most the capacity of both and the refill of both.
func TestFlappingStoreGivesNoFreshAllowance(t *testing.T) {
	for _, tt := range []struct {
		limit core.Limit
		bound int // of one store, in 30 seconds
	}{
		{core.PerMinute(60).WithBurst(20), 20 + 30},
		{core.PerHour(20), 20},
		{core.PerHour(20).Using(core.FixedWindow), 20},
		{core.PerHour(20).Using(core.SlidingWindow), 20},
		{core.PerHour(20).Using(core.SlidingLog), 20},
	} {
		t.Run(tt.limit.String(), inBubble(func(t *testing.T) {
			start := time.Now()
			s := &faulty{fault: func(context.Context) error {
				if time.Since(start)/(100*time.Millisecond)%2 == 1 {
					return errUnreachable
				}
				return nil
			}}
			l := withStore(s, []core.Rule{tt.limit.By(keyK)})
			admitted, degraded := 0, 0
			for time.Since(start) < 30*time.Second {
				d := must.Get(l.Check(get("/")))(t)
				if d.Allowed {
					admitted++
				}
				if d.Degraded != nil {
					degraded++
				}
				time.Sleep(5 * time.Millisecond)
			}
			expect.True(t, admitted <= 2*tt.bound && admitted >= tt.bound,
				"admitted %d, want from %d to %d", admitted, tt.bound, 2*tt.bound)
			expect.True(t, degraded != 0 && degraded != 6000, "%d of 6000 decisions were degraded: the store did not flap", degraded)
		}))
	}
}
