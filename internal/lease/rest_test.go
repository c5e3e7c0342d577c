package lease

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/oracle"
)

// The deadline of a refill is as long as the longest deadline that a Take had.
func TestARefillHasTheLongestDeadline(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	for _, row := range []struct{ hours, want time.Duration }{{0, 0}, {2, 2}, {5, 5}, {3, 5}, {0, 5}} {
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if row.hours > 0 {
			ctx, cancel = context.WithTimeout(ctx, row.hours*time.Hour)
		}
		must.Get(s.Take(ctx, []core.Claim{c}, nil))(t)
		cancel()
		if got := time.Duration(s.table().timeout.Load()); got.Round(time.Hour) != row.want*time.Hour {
			t.Errorf("with %d hours: a timeout of %v, want %d hours", row.hours, got, row.want)
		}
	}
}

// A refill is not given up while a request would still wait for it.
func TestARefillTakesAsLongAsATakeMay(t *testing.T) {
	for _, row := range []struct {
		timeout, takes time.Duration
		want           int64
	}{{0, 999 * ms, 2}, {0, 1001 * ms, 0}, {5 * time.Second, 4999 * ms, 2}, {5 * time.Second, 5001 * ms, 0}} {
		synctest.Test(t, func(t *testing.T) {
			s := newFake(t)
			c, e := emptyLease(t, s, "k")
			s.table().timeout.Store(int64(row.timeout))
			s.next(func() error { time.Sleep(row.takes); return nil })
			s.table().takeLease([]core.Claim{c}, 0, true, s.table().now(), nil)
			time.Sleep(row.takes)
			synctest.Wait()
			expect.Equal(t, e.available(), row.want, "a timeout of %v: left after a refill that took %v", row.timeout, row.takes)
		})
	}
}

// A request that has waited in vain for a refill fails as the refill's call does: its own call would not be sent any more, so a store that
// is down would count as one that gets too many calls.
func TestARequestFailsAsItsRefillDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, failure := newFake(t), errors.New("down")
		c, _ := emptyLease(t, s, "k")
		s.table().timeout.Store(int64(51 * ms)) // requests may have a bit less
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		s.next(func() error { time.Sleep(51 * ms); return failure })
		expect.ErrorIs(t, expect.ErrorOf(s.Take(ctx, []core.Claim{c}, nil)), failure, "a request whose refill fails at its deadline")
	})
}

func TestAnInvalidClaimEndsNoLease(t *testing.T) {
	s, c, e := lent(t)
	c.Lease = time.Hour
	_, err := s.Take(t.Context(), []core.Claim{leasedFor("k", "100/d"), c}, nil)
	expect.True(t, errors.Is(err, core.ErrInvalid) && e.available() == 10, "%v, %d left", err, e.available())
}

// An invalid claim of a key without a lease is left to the store, and begins no lease.
func TestAnInvalidClaimBeginsNoLease(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	s.take(t, c)
	c.Lease = time.Hour
	_, hash := s.table().placeOf(c)
	s.take(t, c) // the fake does not validate claims
	s.restOf(c, leasedFor("other", "100/d")).count([]core.Result{{Allowed: true, Remaining: 9}, {Allowed: true, Remaining: 9}})
	expect.True(t, s.LeaseStats().Keys == 0 && !s.table().leased.has(hash), "an invalid claim began a lease")
}

// A claim that cannot be decided by a lease begins none, even if the key was used within its Lease before.
func TestOnlyAClaimThatALeaseCanDecideBeginsOne(t *testing.T) {
	for why, change := range map[string]func(*core.Claim){
		"a peek":    func(c *core.Claim) { c.Peek = true },
		"a dry run": func(c *core.Claim) { c.DryRun = true },
		"a hold":    func(c *core.Claim) { c.Hold = true },
		"a ban":     func(c *core.Claim) { c.Limits = core.MustParseLimits("100/d;ban=1h") },
		"a log":     func(c *core.Claim) { c.Limits = core.MustParseLimits("100/d;sliding-log") },
	} {
		s, c := newFake(t), leasedFor("k", "100/d")
		s.take(t, c)
		change(&c)
		_, hash := s.table().placeOf(c)
		_, _, _ = s.table().takeLease([]core.Claim{c}, 0, true, s.table().now(), nil)
		expect.True(t, s.LeaseStats().Keys == 0 && !s.table().leased.has(hash), "%s began a lease", why)
	}
}

func TestNoLeaseDecidesAClaimThatMayWait(t *testing.T) {
	s, c, _ := lent(t)
	c.MaxWait = time.Second
	_, local := s.TakeLocal([]core.Claim{c}, nil)
	_, err := s.Take(t.Context(), []core.Claim{c}, nil)
	expect.True(t, !local && errors.Is(err, core.ErrInvalid), "decided by a lease: %v; %v", local, err)
}

// A peek, a denied request and a request that cannot be leased do not count as the first request of a key.
func TestRequestsThatDoNotCountAsTheFirst(t *testing.T) {
	for why, change := range map[string]func(*core.Claim){
		"a peek":    func(c *core.Claim) { c.Peek = true },
		"a denial":  func(c *core.Claim) { c.Cost = 101 },
		"a dry run": func(c *core.Claim) { c.DryRun = true },
	} {
		s, c := newFake(t), leasedFor("k", "100/d")
		first := c
		change(&first)
		for _, one := range []core.Claim{first, first, c} {
			must.Get(s.Take(t.Context(), []core.Claim{one}, nil))(t)
		}
		expect.Equal(t, s.LeaseStats().Keys, 0, "%s: keys leased after the first request", why)
	}
}

// While a request of a key without a lease is in flight, other processes may lease the requests that it needs.
func TestAColdRequestGetsWhatOthersHaveLeasedMeanwhile(t *testing.T) {
	s := newFake(t)
	c := leasedFor("k", "20/d")
	c.Cost = 15
	s.next(func() error { s.lend(t, c, 10); return nil })
	r, err := s.Take(t.Context(), []core.Claim{c}, nil)
	expect.True(t, err == nil && r[0].Allowed && r[0].Remaining == 5, "%+v, %v", r, err)
}

// While a call is denied, another refill of this process may arrive. The call is made again and returns that refill too, but
// nothing that the first call has returned.
func TestADenialIsRepeatedWithWhatHasArrived(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "40/d")
	c.Cost = 20
	s.charge(c)
	e := s.lend(t, c, 10)
	e.pause = pauseSpans // no refill is asked for
	s.next(func() error {
		at, n := s.ahead(c, 5)
		now, length := s.table().now(), e.terms.length
		e.credit(now, length, at, now+length, n)
		return nil
	})
	c.Cost = 18
	if r := s.take(t, c)[0]; !r.Allowed || r.Remaining != 2 || s.remains(t, c) != 2 {
		t.Errorf("18 of 20: %+v, %d remain in the store, want 2", r, s.remains(t, c))
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
	n := s.remains(t, a)
	expect.True(t, n == 100 && s.LeaseStats().Returned == 10, "%d remain, %+v", n, s.LeaseStats())
}

// restOf returns a Take whose claims the store decides.
func (s *fake) restOf(claims ...core.Claim) *take {
	k := &take{table: s.table(), claims: claims, rest: claims, parts: make([]part, len(claims)), begun: s.table().now()}
	for i := range claims {
		p := k.part(i)
		p.hash = s.table().hash(claims[i].Rule, claims[i].Key)
		p.cold = !s.table().leased.has(p.hash)
	}
	return k
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

// inFlight begins a refill of e, and returns a context that ends it, with n requests, when something waits for it.
func (s *fake) inFlight(e *entry, c core.Claim, n int64) *waitedFor {
	r := &refill{ends: time.Now(), done: make(chan struct{})}
	e.refill = r
	return &waitedFor{context.Background(), func() {
		at, charged := s.ahead(c, n)
		now, length := s.table().now(), e.terms.length
		e.credit(now, length, at, now+length, charged)
		e.refill = nil
		close(r.done)
	}}
}

// If the terms of a key change, the call returns what the process has leased on the old terms. The key is leased on the new terms
// once no refill on the old ones is in flight.
func TestAChangeOfTerms(t *testing.T) {
	for name, change := range map[string]func(*core.Claim){
		"another rate":    func(c *core.Claim) { c.Limits = core.MustParseLimits("200/d") },
		"one limit more":  func(c *core.Claim) { c.Limits = core.MustParseLimits("100/d, 300/h") },
		"no lease":        func(c *core.Claim) { c.Limits = core.MustParseLimits("100/d;sliding-log") },
		"a shorter lease": func(c *core.Claim) { c.Lease = time.Second },
	} {
		for _, inFlight := range []bool{false, true} {
			s, c := newFake(t), leasedFor("k", "100/d")
			e, other := s.lend(t, c, 10), c
			if change(&other); inFlight {
				e.refill = new(refill)
			}
			old := e.terms
			unused := s.restOf(other).collect()
			expect.True(t, len(unused) == 1 && unused[0].Cost == 10 && slices.Equal(unused[0].Limits, old.limits) && e.available() == 0,
				"%s: returns %+v, %d left", name, unused, e.available())
			shard, hash := s.table().placeOf(c)
			now := shard.find(hash, c.Rule, c.Key)
			if changes := leasable(&other) && !inFlight; (now != e) != changes || e.gone != changes || changes && (!now.terms.fit(&other) || now.pause != pauseSpans) {
				t.Errorf("%s, a refill in flight: %v: now %+v", name, inFlight, now)
			}
		}
	}
}

// A request on other terms that is denied waits for a refill on the old terms, and returns it.
func TestADenialOnOtherTermsReturnsTheRefill(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	e, other := s.lend(t, c, 10), leasedFor("k", "100/d, 100/h")
	ctx := s.inFlight(e, c, 20)
	s.next(func() error { ctx.f(); ctx.f = nil; return nil })
	other.Cost = 95
	r, _, err := s.leases.Take(t.Context(), []core.Claim{other}, nil)
	expect.True(t, err == nil && oracle.Allowed(r) && r[0].Remaining == 5, "%+v, %v", r, err)
}

// The call for such a claim returns what is left of the lease.
func TestAClaimWithoutALeaseChangesNoTerms(t *testing.T) {
	s, c, e := lent(t)
	c.Lease = 0
	all := s.restOf(c).collect()
	expect.True(t, !e.gone && len(all) == 1 && all[0].Cost == 10, "gone: %v, returns %+v", e.gone, all)
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
		"to be returned":      {func(e *entry) { e.drop(1, 1) }, []core.Result{denied, denied}, t.Context(), true},
		"none left":           {func(e *entry) { e.loan = loan{} }, []core.Result{denied, denied}, t.Context(), false},
		"a refill": {func(e *entry) {
			e.loan = loan{}
			e.refill = &refill{done: make(chan struct{})}
			close(e.refill.done)
		}, []core.Result{denied, denied}, t.Context(), true},
	} {
		s, c := newFake(t), leasedFor("k", "100/d")
		row.change(s.lend(t, c, 10))
		expect.Equal(t, s.restOf(leasedFor("cold", "100/d"), c).holdsDenied(row.ctx, row.results), row.want, "%s", why)
	}
}

// Requests charged ahead during a reset may have been charged before it, so they are not used after it.
func TestALoanDuringAResetIsNotUsedAfterIt(t *testing.T) {
	s := newFake(t)
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100000/d"), Lease: 10 * time.Second}
	s.next(func() error {
		for range 20 {
			s.decide(t, c)
		}
		s.withEntry(t, func(*entry) {})
		return nil
	})
	must.Do(t, s.Reset(context.Background(), []core.Pair{{Rule: c.Rule, Key: c.Key}}))
	expect.NotEqual(t, s.LeaseStats().Decisions, 0, "nothing was leased during the reset")
	r, ok := s.TakeLocal([]core.Claim{c}, nil)
	expect.True(t, !ok, "after the reset a lease from before decided: %+v", r)
}

// A decision is all or nothing: what was taken from a lease is put back if the store denies the rest, or fails.
func TestWhatTheRestDeniesIsPutBack(t *testing.T) {
	s, a, b := newFake(t), leasedFor("a", "100/d"), core.Claim{Key: "b", Limits: core.MustParseLimits("1/d")}
	e := s.lend(t, a, 10)
	r := s.decide(t, a, b)
	expect.True(t, oracle.Allowed(r) && r[0].Remaining == 99 && r[1].Remaining == 0, "admitted: %+v", r)
	for range 3 {
		r := s.decide(t, a, b)
		expect.True(t, r[0].Allowed && r[0].Remaining == 99 && !r[1].Allowed, "denied: %+v", r)
	}
	s.next(func() error { return errors.New("down") })
	expect.Fails(t, expect.ErrorOf(s.Take(t.Context(), []core.Claim{a, b}, nil)), "a store that fails decided")
	expect.Equal(t, e.available(), 9, "left")
}

// Only a request that does not ask the store counts as decided from a lease, and it counts once, unless it is a peek. The count
// never falls.
func TestDecisionsFromLeasesAreRequestsThatDoNotAskTheStore(t *testing.T) {
	s, a, b, full := newFake(t), leasedFor("a", "100/d"), leasedFor("b", "100/d"), core.Claim{Key: "full", Limits: core.MustParseLimits("0/d")}
	s.lend(t, a, 10)
	s.lend(t, b, 10)
	s.next(func() error {
		expect.Equal(t, s.LeaseStats().Decisions, 0, "while the store is asked about the rest")
		return nil
	})
	s.decide(t, a, full)
	expect.Equal(t, s.LeaseStats().Decisions, 0, "after the store denied the rest")
	s.decide(t, a, core.Claim{Key: "free", Limits: core.MustParseLimits("5/d")})
	expect.Equal(t, s.LeaseStats().Decisions, 0, "after the store admitted the rest")
	s.decide(t, a, b)
	_, _, err := s.leases.Take(t.Context(), []core.Claim{a, b}, nil)
	expect.True(t, err == nil && s.LeaseStats().Decisions == 2, "two requests of two leases: %+v, %v", s.LeaseStats(), err)
	peekA, peekB := a, b
	peekA.Peek, peekB.Peek = true, true
	for _, claims := range [][]core.Claim{{peekA, peekB}, {a, peekB}, {peekB, a}} {
		s.decide(t, claims...)
	}
	expect.Equal(t, s.LeaseStats().Decisions, 4, "after peeks alone, and after two requests with a peek")
}

// The results of a request are in the order of its claims, which stay as they are.
func TestALeaseDecidesTheClaimInTheMiddle(t *testing.T) {
	s, b := newFake(t), leasedFor("b", "100/d")
	e := s.lend(t, b, 10)
	claims := []core.Claim{{Key: "a", Limits: core.MustParseLimits("5/d")}, b, {Key: "c", Limits: core.MustParseLimits("7/d")}}
	r := s.decide(t, claims...)
	expect.True(t, len(r) == 3 && r[0].Remaining == 4 && r[1].Remaining == 99 && r[2].Remaining == 6 && e.available() == 9,
		"%+v, %d left", r, e.available())
	expect.True(t, claims[0].Key == "a" && claims[1].Key == "b" && claims[2].Key == "c", "the claims are now %+v", claims)
}

// A dry run denies nothing: what a lease has admitted beside it stays taken.
func TestADryRunThatWouldDenyPutsNothingBack(t *testing.T) {
	s, a, b := newFake(t), leasedFor("a", "100/d"), core.Claim{Key: "b", Limits: core.MustParseLimits("0/d"), DryRun: true}
	e := s.lend(t, a, 10)
	if r := s.decide(t, a, b); !r[0].Allowed || r[0].Remaining != 99 || r[1].Allowed || e.available() != 9 {
		t.Errorf("%+v, %d left", r, e.available())
	}
}

// The caller may repeat a denial only if the store says so.
func TestTheStoreSaysWhetherADenialLasts(t *testing.T) {
	for _, sent := range []time.Time{{}, time.Unix(1, 0)} {
		s, a, b := newFake(t), leasedFor("a", "100/d"), leasedFor("b", "0/d")
		s.sent = sent
		s.lend(t, a, 10)
		for _, claims := range [][]core.Claim{{b}, {a, b}} {
			if r, got, err := s.leases.Take(t.Context(), claims, nil); err != nil || oracle.Allowed(r) || got != sent {
				t.Errorf("%d claims: %+v, sent %v, want %v, %v", len(claims), r, got, sent, err)
			}
		}
	}
}

// A peek takes nothing, so its result stays. What remains after a request was put back is at most the capacity.
func TestRemainingAfterADenialByAnotherClaim(t *testing.T) {
	for name, row := range map[string]struct {
		peek         bool
		stored, want int
	}{"a peek": {true, 50, 60}, "a request": {false, 50, 60}, "a full limit": {false, 95, 100}} {
		s, a, b := newFake(t), leasedFor("a", "100/d"), core.Claim{Key: "b", Limits: core.MustParseLimits("0/d")}
		s.lend(t, a, 10).first.stored = uint32(row.stored)
		a.Peek = row.peek
		r := s.decide(t, a, b)
		expect.True(t, r[0].Remaining == row.want && !r[1].Allowed, "%s: %+v, want %d remaining", name, r, row.want)
	}
}

// A call that a lease cannot decide returns the lease of its key first, and so gets all that remains.
func TestOtherClaimsGetTheRequestsOfTheLease(t *testing.T) {
	for why, change := range map[string]func(*core.Claim){
		"a dry run":     func(c *core.Claim) { c.DryRun = true },
		"a hold":        func(c *core.Claim) { c.Hold = true },
		"no lease":      func(c *core.Claim) { c.Lease = 0 },
		"another lease": func(c *core.Claim) { c.Lease /= 2 },
		"other limits":  func(c *core.Claim) { c.Limits = core.MustParseLimits("100/d, 1000/h") },
		"another kind":  func(c *core.Claim) { c.Limits = core.MustParseLimits("100/d, 100/d;sliding-log") },
		"its own":       func(*core.Claim) {},
	} {
		s, c, _ := lent(t)
		change(&c)
		c.Cost = 100
		r := s.decide(t, c)
		expect.True(t, oracle.Allowed(r) && r[0].Remaining == 0, "%s: %+v", why, r)
	}
	s, c, _ := lent(t)
	other := c
	c.Cost = 99
	r := s.decide(t, other, c)
	expect.True(t, oracle.Allowed(r) && r[0].Remaining == 0, "twice in a request: %+v", r)
}
