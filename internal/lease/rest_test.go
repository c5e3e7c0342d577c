package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// The deadline of a grant is as long as the longest deadline that a Take had.
func TestAGrantHasTheLongestDeadline(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	for _, row := range []struct{ hours, want time.Duration }{{0, 0}, {2, 2}, {5, 5}, {3, 5}, {0, 5}} {
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if row.hours > 0 {
			ctx, cancel = context.WithTimeout(ctx, row.hours*time.Hour)
		}
		if _, err := s.Take(ctx, []core.Claim{c}, nil); err != nil {
			t.Fatal(err)
		}
		cancel()
		if got := time.Duration(s.table().timeout.Load()); got.Round(time.Hour) != row.want*time.Hour {
			t.Errorf("with %d hours: a timeout of %v, want %d hours", row.hours, got, row.want)
		}
	}
}

// A grant is not given up while a request would still wait for it.
func TestAGrantTakesAsLongAsATakeMay(t *testing.T) {
	for _, row := range []struct {
		timeout, takes time.Duration
		want           int64
	}{{0, 999 * ms, 2}, {0, 1001 * ms, 0}, {5 * time.Second, 4999 * ms, 2}, {5 * time.Second, 5001 * ms, 0}} {
		synctest.Test(t, func(t *testing.T) {
			s := newFake(t)
			c, e := emptyLease(t, s, "k")
			s.table().timeout.Store(int64(row.timeout))
			s.next(func() error { time.Sleep(row.takes); return nil })
			s.table().takeLease(&c, waitAlways, nil)
			time.Sleep(row.takes)
			synctest.Wait()
			if n := e.available(); n != row.want {
				t.Errorf("a timeout of %v: %d left after a grant that took %v, want %d", row.timeout, n, row.takes, row.want)
			}
		})
	}
}

func TestAnInvalidClaimEndsNoLease(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	c.Lease = time.Hour
	if _, err := s.Take(t.Context(), []core.Claim{leasedFor("k", "100/d"), c}, nil); !errors.Is(err, core.ErrInvalid) || e.available() != 10 {
		t.Errorf("%v, %d left", err, e.available())
	}
}

func TestATakeOfALeasedKeyTakesOnce(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	if r, err := s.Take(t.Context(), []core.Claim{c}, nil); err != nil || len(r) != 1 || e.available() != 9 {
		t.Errorf("%+v, %v, %d left", r, err, e.available())
	}
}

func TestAFailureOfAColdKeyIsAnError(t *testing.T) {
	s := newFake(t)
	cut := errors.New("cut")
	s.next(func() error { return cut })
	if r, err := s.Take(t.Context(), []core.Claim{leasedFor("k", "100/d")}, nil); !errors.Is(err, cut) || len(r) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A peek, a denied request and a request that cannot be leased do not count as the first request of a key.
func TestWhatIsNoFirstRequestOfAKey(t *testing.T) {
	for why, change := range map[string]func(*core.Claim){
		"a peek":    func(c *core.Claim) { c.Peek = true },
		"a denial":  func(c *core.Claim) { c.Cost = 101 },
		"a dry run": func(c *core.Claim) { c.DryRun = true },
	} {
		s, c := newFake(t), leasedFor("k", "100/d")
		first := c
		change(&first)
		for _, one := range []core.Claim{first, first, c} {
			if _, err := s.Take(t.Context(), []core.Claim{one}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.LeaseStats().Keys; n != 0 {
			t.Errorf("%s: %d keys are leased after the first request", why, n)
		}
	}
}

// While a request of a key without a lease is in flight, other processes may lease the requests that it needs.
func TestAColdRequestGetsWhatOthersHaveLeasedMeanwhile(t *testing.T) {
	s := newFake(t)
	c := leasedFor("k", "20/d")
	c.Cost = 15
	s.next(func() error { s.lend(t, c, 10); return nil })
	if r, err := s.Take(t.Context(), []core.Claim{c}, nil); err != nil || !r[0].Allowed || r[0].Remaining != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}

// While a call is denied, another grant of this process may arrive. The call is made again and returns that grant too, but
// nothing that the first call has returned.
func TestADenialIsRepeatedWithWhatHasArrived(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "40/d")
	c.Cost = 20
	s.charge(c)
	e := s.lend(t, c, 10)
	e.pause = pauseSpans // no grant is asked for
	s.next(func() error {
		at, n := s.ahead(t, c, 5)
		now := s.table().now()
		e.credit(now, at, now+e.terms.length, n)
		return nil
	})
	c.Cost = 18
	if r := s.take(t, c)[0]; !r.Allowed || r.Remaining != 2 || s.remains(t, c) != 2 {
		t.Errorf("18 of 20: %+v, %d remain in the store, want 2", r, s.remains(t, c))
	}
}

// A denial is final if no lease of this process can have caused it.
func TestADenialIsOneCall(t *testing.T) {
	s := newFake(t)
	c := leasedFor("k", "20/d")
	c.Cost = 21
	for _, claims := range [][]core.Claim{{c}, {c, leasedFor("o", "20/d")}} {
		runs := s.calls.Load()
		if r, err := s.Take(t.Context(), claims, nil); err != nil || r[0].Allowed || s.calls.Load() != runs+1 {
			t.Errorf("%+v, %v, %d calls", r, err, s.calls.Load()-runs)
		}
	}
}

// If a call is not sent, the requests that it should have returned are not lost.
func TestACallThatIsNotSentReturnsLater(t *testing.T) {
	s, a, b := newFake(t), leasedFor("a", "100/d"), leasedFor("b", "100/d")
	s.lend(t, a, 10)
	e := s.lend(t, b, 10)
	a.Cost = 11
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Take(over, []core.Claim{a, b}, nil); err == nil || e.available() != 10 || s.table().toReturn() != 10 || len(s.table().unused) != 1 {
		t.Errorf("%v, %d left, to be returned: %+v", err, e.available(), s.table().unused)
	}
	s.table().sweep()
	if n := s.remains(t, a); n != 100 || s.LeaseStats().Returned != 10 {
		t.Errorf("%d remain, %+v", n, s.LeaseStats())
	}
}

func TestACallCountsWhatItUsesAndReturns(t *testing.T) {
	s, a, b := newFake(t), leasedFor("a", "100/d"), leasedFor("b", "100/d")
	one, two := s.lend(t, a, 10), s.lend(t, b, 6)
	a.Cost, b.Cost = 11, 7
	r, err := s.Take(t.Context(), []core.Claim{a, b}, nil)
	s.quiet()
	if err != nil || r[0].Remaining != 89 || r[1].Remaining != 93 || s.LeaseStats().Returned != 16 {
		t.Errorf("%+v, %v, %+v", r, err, s.LeaseStats())
	}
	if one.used[0] != 11 || two.used[0] != 7 {
		t.Errorf("used %v and %v", one.used, two.used)
	}
}

// restOf returns a Take whose claims the store decides.
func (s *fake) restOf(claims ...core.Claim) *take {
	k := &take{table: s.table(), claims: claims, rest: claims, parts: make([]part, len(claims)), loans: make([]Loan, len(claims))}
	for i := range claims {
		k.places = append(k.places, i)
	}
	return k
}

// unusedOf returns how many requests the call for the rest of k returns.
func unusedOf(k *take) (n int64) {
	for i := range k.loans {
		n += k.loans[i].Unused.Count()
	}
	return n
}

// A waitedFor is a context that calls f when something waits for its end for the first time.
type waitedFor struct {
	context.Context
	f func()
}

func (c *waitedFor) Done() <-chan struct{} {
	if f := c.f; f != nil {
		c.f = nil
		f()
	}
	return nil
}

// inFlight has a grant for e be in flight, and returns a context that ends it, with n requests, when it is waited for.
func (s *fake) inFlight(t *testing.T, e *entry, c core.Claim, n int64) *waitedFor {
	g := &grant{time.Now(), make(chan struct{})}
	e.ensureRare().grant = g
	return &waitedFor{context.Background(), func() {
		at, granted := s.ahead(t, c, n)
		now := s.table().now()
		e.credit(now, at, now+e.terms.length, granted)
		e.rare.grant = nil
		close(g.done)
	}}
}

// If the terms of a key change, the process first returns what it has leased on the old terms, and what a pending grant
// charges. Only then does it ask on the new terms.
func TestAChangeOfTermsWaitsForAGrant(t *testing.T) {
	for _, limits := range []string{"200/d", "100/d, 300/h", "100/d;sliding-log"} {
		s, c := newFake(t), leasedFor("k", "100/d")
		e, other := s.lend(t, c, 10), leasedFor("k", limits)
		ctx := s.inFlight(t, e, c, 20)
		s.restOf(other).changeTerms(ctx)
		if ctx.f != nil || e.available() != 0 || e.terms.fit(&other) != leasable(&other) {
			t.Errorf("%s: waited: %v, %d left", limits, ctx.f == nil, e.available())
		}
		if n := s.remains(t, c); n != 100 {
			t.Errorf("%s: %d remain, want 100", limits, n)
		}
	}
}

// A request whose terms differ only in the length of the lease does not wait.
func TestAnotherLengthOfALeaseIsAChangeOfTerms(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	e, other := s.lend(t, c, 10), c
	other.Lease = time.Second
	s.inFlight(t, e, c, 20)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if s.restOf(other).changeTerms(over); e.available() != 0 || !e.terms.fit(&other) || e.pause != pauseSpans {
		t.Errorf("%d left, terms of %v", e.available(), e.terms.length)
	}
}

// The call for such a claim returns what is left of the lease by itself.
func TestAClaimWithoutALeaseChangesNoTerms(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	c.Lease = 0
	if s.restOf(c).changeTerms(context.Background()); e.available() != 10 {
		t.Errorf("%d left of 10", e.available())
	}
}

func TestAChangeOfTermsForgetsTheOtherLimits(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d, 200/h")
	e := s.lend(t, c, 10)
	e.ensureRare().others = make([]after, 1)
	c.Limits = core.MustParseLimits("100/d, 200/h, 300/h;fixed-window")
	if s.restOf(c).changeTerms(context.Background()); e.rare != nil {
		t.Errorf("kept %+v", e.rare)
	}
}

// A call returns what is left of a lease, unless that was ended before: what has come in since then is for others.
func TestACallReturnsWhatIsLeft(t *testing.T) {
	s, a, b := newFake(t), leasedFor("a", "100/d"), leasedFor("b", "100/d")
	one, two := s.lend(t, a, 10), s.lend(t, b, 5)
	b.Limits = core.MustParseLimits("99/d")
	k := s.restOf(a, b, leasedFor("none", "100/d"))
	k.parts[0].ended = true
	if k.collect(false); one.available() != 10 || unusedOf(k) != 0 {
		t.Errorf("ended before: %d left, %d returned", one.available(), unusedOf(k))
	}
	if k.collect(true); one.available() != 0 || unusedOf(k) != 10 {
		t.Errorf("the second time: %d left, %d returned", one.available(), unusedOf(k))
	}
	if two.available() != 5 {
		t.Errorf("%d left of a lease of other limits, want 5", two.available())
	}
	k = s.restOf(leasedFor("b", "100/d"))
	if k.collect(false); two.available() != 0 || unusedOf(k) != 5 {
		t.Errorf("not ended: %d left, %d returned", two.available(), unusedOf(k))
	}
}

// A denial may be due to what this process holds of the pair.
func TestADenialMayBeDueToALease(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	denied, admitted := core.Result{}, core.Result{Allowed: true}
	for why, row := range map[string]struct {
		change  func(*entry)
		results []core.Result
		ctx     context.Context
		want    bool
	}{
		"some left":           {func(*entry) {}, []core.Result{admitted, denied}, t.Context(), true},
		"admitted":            {func(*entry) {}, []core.Result{denied, admitted}, t.Context(), false},
		"nobody waits for it": {func(*entry) {}, []core.Result{admitted, denied}, done, false},
		"to be returned":      {func(e *entry) { e.end() }, []core.Result{denied, denied}, t.Context(), true},
		"none left":           {func(e *entry) { e.finish() }, []core.Result{denied, denied}, t.Context(), false},
		"a grant": {func(e *entry) {
			e.finish()
			e.ensureRare().grant = &grant{time.Now(), make(chan struct{})}
			close(e.rare.grant.done)
		}, []core.Result{denied, denied}, t.Context(), true},
	} {
		s, c := newFake(t), leasedFor("k", "100/d")
		row.change(s.lend(t, c, 10))
		if got := s.restOf(leasedFor("cold", "100/d"), c).holdsDenied(row.ctx, row.results); got != row.want {
			t.Errorf("%s: %v", why, got)
		}
	}
}

func TestADenialWaitsForAGrantInFlight(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	e.finish()
	ctx := s.inFlight(t, e, c, 7)
	if !s.restOf(c).holdsDenied(ctx, []core.Result{{}}) || e.available() != 7 {
		t.Errorf("%d left after a wait for 7", e.available())
	}
}

// A key whose limits have changed is not leased for a while: requests that ask for the old ones may be under way.
func TestAChangeOfTermsIsFollowedByAPause(t *testing.T) {
	s, c := busyEntry(t)
	s.withEntry(t, func(e *entry) { e.left[0] = 5 })
	c.Limits = core.MustParseLimits("200000/d")
	s.decide(t, c)
	if n := s.grantsInFlight(); n > 0 {
		t.Errorf("after a change: %d grants in flight", n)
	}
	s.withEntry(t, func(e *entry) {
		if e.pause != pauseSpans || e.available() > 0 {
			t.Errorf("after a change: a pause of %d, %d left", e.pause, e.available())
		}
		if !e.terms.fit(&c) {
			t.Error("the lease has the old limits")
		}
	})
	for range 10 {
		s.decide(t, c)
	}
	s.withEntry(t, func(e *entry) {
		if n := e.available(); n > 0 {
			t.Errorf("%d were granted in the pause", n)
		}
	})
	s.leases.pass(2 * c.Lease)
	s.decide(t, c)
	s.quiet()
	if _, ok := s.TakeLocal([]core.Claim{c}, nil); !ok {
		t.Error("not leased after the pause")
	}
}

// Requests charged ahead during a reset may have been charged before it, so they are not used after it.
func TestAGrantDuringAResetIsNotUsedAfterIt(t *testing.T) {
	s := newFake(t)
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100000/d"), Lease: 10 * time.Second}
	s.next(func() error {
		for range 20 {
			s.decide(t, c)
		}
		s.withEntry(t, func(*entry) {})
		return nil
	})
	if err := s.Reset(context.Background(), []core.Pair{{Rule: c.Rule, Key: c.Key}}); err != nil {
		t.Fatal(err)
	}
	if s.LeaseStats().Decisions == 0 {
		t.Error("nothing was leased during the reset")
	}
	if r, ok := s.TakeLocal([]core.Claim{c}, nil); ok {
		t.Errorf("after the reset a lease from before decided: %+v", r)
	}
}

// A decision is all or nothing: what was taken from a lease is put back if the store denies the rest, or fails.
func TestWhatTheRestDeniesIsPutBack(t *testing.T) {
	s, a, b := newFake(t), leasedFor("a", "100/d"), core.Claim{Key: "b", Limits: core.MustParseLimits("1/d")}
	e := s.lend(t, a, 10)
	if r := s.decide(t, a, b); !oracle.Allowed(r) || r[0].Remaining != 99 || r[1].Remaining != 0 {
		t.Errorf("admitted: %+v", r)
	}
	for range 3 {
		if r := s.decide(t, a, b); !r[0].Allowed || r[0].Remaining != 99 || r[1].Allowed {
			t.Errorf("denied: %+v", r)
		}
	}
	s.next(func() error { return errors.New("down") })
	if _, err := s.Take(t.Context(), []core.Claim{a, b}, nil); err == nil {
		t.Error("a store that fails decided")
	}
	if e.available() != 9 || s.LeaseStats().Decisions != 1 {
		t.Errorf("%d left, %+v, want 9 and one decision", e.available(), s.LeaseStats())
	}
}

// A dry run denies nothing: what a lease has admitted beside it stays taken.
func TestADryRunThatWouldDenyPutsNothingBack(t *testing.T) {
	s, a, b := newFake(t), leasedFor("a", "100/d"), core.Claim{Key: "b", Limits: core.MustParseLimits("0/d"), DryRun: true}
	e := s.lend(t, a, 10)
	if r := s.decide(t, a, b); !r[0].Allowed || r[0].Remaining != 99 || r[1].Allowed || e.available() != 9 || s.LeaseStats().Decisions != 1 {
		t.Errorf("%+v, %d left, %+v", r, e.available(), s.LeaseStats())
	}
}

// The caller may repeat a denial only if the store says so.
func TestTheStoreSaysWhetherADenialLasts(t *testing.T) {
	for _, lasts := range []bool{false, true} {
		s, a, b := newFake(t), leasedFor("a", "100/d"), leasedFor("b", "0/d")
		s.lasts = lasts
		s.lend(t, a, 10)
		for _, claims := range [][]core.Claim{{b}, {a, b}} {
			if r, got, err := s.leases.Take(t.Context(), claims, nil); err != nil || oracle.Allowed(r) || got != lasts {
				t.Errorf("%d claims: %+v, lasts: %v, want %v, %v", len(claims), r, got, lasts, err)
			}
		}
	}
}

// A peek takes nothing, so its result stays. What remains after a request was put back is at most the capacity.
func TestWhatRemainsAfterADenialByTheRest(t *testing.T) {
	for name, row := range map[string]struct {
		peek         bool
		stored, want int
	}{"a peek": {true, 50, 60}, "a request": {false, 50, 60}, "a full limit": {false, 95, 100}} {
		s, a, b := newFake(t), leasedFor("a", "100/d"), core.Claim{Key: "b", Limits: core.MustParseLimits("0/d")}
		s.lend(t, a, 10).stored = uint32(row.stored)
		a.Peek = row.peek
		if r := s.decide(t, a, b); r[0].Remaining != row.want || r[1].Allowed {
			t.Errorf("%s: %+v, want %d remaining", name, r, row.want)
		}
	}
}

// A call that a lease cannot decide returns the lease of its key first, and so gets all that remains.
func TestWhatIsHeldDoesNotStandInTheWayOfOtherClaims(t *testing.T) {
	for why, change := range map[string]func(*core.Claim){
		"a dry run":     func(c *core.Claim) { c.DryRun = true },
		"a hold":        func(c *core.Claim) { c.Hold = true },
		"no lease":      func(c *core.Claim) { c.Lease = 0 },
		"another lease": func(c *core.Claim) { c.Lease /= 2 },
		"other limits":  func(c *core.Claim) { c.Limits = core.MustParseLimits("100/d, 1000/h") },
		"another kind":  func(c *core.Claim) { c.Limits = core.MustParseLimits("100/d, 100/d;sliding-log") },
		"its own":       func(*core.Claim) {},
	} {
		s, c := newFake(t), leasedFor("k", "100/d")
		s.lend(t, c, 10)
		change(&c)
		c.Cost = 100
		if r := s.decide(t, c); !oracle.Allowed(r) || r[0].Remaining != 0 {
			t.Errorf("%s: %+v", why, r)
		}
	}
	s, c := newFake(t), leasedFor("k", "100/d")
	s.lend(t, c, 10)
	other := c
	c.Cost = 99
	if r := s.decide(t, other, c); !oracle.Allowed(r) || r[0].Remaining != 0 {
		t.Errorf("twice in a request: %+v", r)
	}
}
