package lease

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestClaimsThatShareAPair(t *testing.T) {
	for why, row := range map[string]struct {
		other core.Claim
		want  bool
	}{
		"the same":                {core.Claim{Rule: "r", Key: "k"}, true},
		"another key":             {core.Claim{Rule: "r", Key: "o"}, false},
		"another rule":            {core.Claim{Rule: "o", Key: "k"}, false},
		"another rule and key":    {core.Claim{Rule: "o", Key: "o"}, false},
		"the rule without a name": {core.Claim{Key: "k"}, false},
	} {
		claims := []core.Claim{{Rule: "r", Key: "k"}, {Rule: "x", Key: "x"}, row.other}
		expect.Equal(t, sharesPair(claims, 0), row.want, "%s", why)
		expect.Equal(t, sharesPair(claims, 2), row.want, "%s, the other way round", why)
	}
	expect.True(t, sharesPair([]core.Claim{{Key: "k"}, {Rule: "default", Key: "k"}}, 0), "the name of a rule without one is default")
}

// None of these claims is decided from a lease of 10.
func TestClaimsThatNoLeaseDecides(t *testing.T) {
	for why, row := range map[string]struct {
		change func(*Table, *core.Claim)
		twice  bool
	}{
		"a cost of more":  {func(_ *Table, c *core.Claim) { c.Cost = 11 }, false},
		"a dry run":       {func(_ *Table, c *core.Claim) { c.DryRun = true }, false},
		"a hold":          {func(_ *Table, c *core.Claim) { c.Hold = true }, false},
		"a negative cost": {func(_ *Table, c *core.Claim) { c.Cost = -1 }, false},
		"other limits":    {func(_ *Table, c *core.Claim) { c.Limits = core.MustParseLimits("99/d") }, false},
		"without a lease": {func(_ *Table, c *core.Claim) { c.Lease = 0 }, false},
		"after its end":   {func(table *Table, _ *core.Claim) { table.pass(10 * time.Second) }, false},
		"the same twice":  {func(*Table, *core.Claim) {}, true},
	} {
		s, c, e := lent(t)
		row.change(s.table(), &c)
		claims := []core.Claim{c}
		if row.twice {
			claims = append(claims, c)
		}
		r, ok := s.TakeLocal(claims, nil)
		expect.True(t, !ok && len(r) <= 0 && s.LeaseStats().Decisions == 0, "%s: %+v, %d left", why, r, e.available())
	}
}

// A peek that a lease decided took nothing, so nothing is put back.
func TestAPeekIsNotPutBack(t *testing.T) {
	s, c, e := lent(t)
	peek, cold := c, leasedFor("cold", "100/d")
	peek.Peek = true
	if _, ok := s.TakeLocal([]core.Claim{peek, cold}, nil); ok || s.LeaseStats().Decisions != 0 || e.available() != 10 {
		t.Errorf("%+v, %d left", s.LeaseStats(), e.available())
	}
	other := leasedFor("o", "100/d")
	s.lend(t, other, 10)
	_, ok := s.TakeLocal([]core.Claim{other, cold}, nil)
	expect.True(t, !ok && s.LeaseStats().Decisions == 0, "%+v", s.LeaseStats())
}

// If the terms change during a take, the requests that it took are returned to the store.
func TestRequestsTakenOnOldTermsAreReturned(t *testing.T) {
	s, c, e := lent(t)
	table, at, old := s.table(), e.at, e.terms
	c.Cost = 4
	p, _, ok := table.takeLease([]core.Claim{c}, 0, true, 0, nil)
	c.Limits = core.MustParseLimits("99/d")
	s.restOf(c).collect()
	table.putBack([]part{p, {}})
	expect.True(t, ok && len(table.unused) == 1 && slices.Equal(table.unused[0].Limits, old.limits) &&
		table.unused[0].At.UnixMicro() == at && table.unused[0].Cost == 4,
		"decided: %v, to be returned: %+v", ok, table.unused)
}

// A lease that has too few requests left ends when the store is asked, not before.
func TestALeaseWithTooLittleIsEnded(t *testing.T) {
	s, c, e := lent(t)
	c.Cost = 11
	p, _, ok := s.table().takeLease([]core.Claim{c}, 0, true, 0, nil)
	expect.True(t, !ok && !p.cold && e.available() == 10, "before: %+v, %d left", p, e.available())
	s.next(func() error {
		expect.True(t, e.available() == 0 && e.unused == nil, "left while the store is asked")
		return nil
	})
	s.take(t, c, leasedFor("other", "100/d"))
	expect.Equal(t, s.LeaseStats().Returned, 10, "were returned")
	s.quiet()
	p, _, ok = s.table().takeLease([]core.Claim{leasedFor("cold", "100/d")}, 0, true, s.table().now(), nil)
	expect.True(t, !ok && p.cold, "a key without a lease: %+v", p)
}

// emptyLease adds a lease of a key of which nothing is left, and that is not busy.
func emptyLease(t *testing.T, s *fake, key string) (core.Claim, *entry) {
	c := leasedFor(key, "1000/d")
	e := s.lend(t, c, 1)
	e.left = 0
	return c, e
}

// TestALoneRequestWaitsForItsRefill checks that a request of a key that is not busy is decided from a refill, in one call, unless
// refills come late.
func TestALoneRequestWaitsForItsRefill(t *testing.T) {
	for _, late := range []bool{false, true} {
		s := newFake(t)
		c, e := emptyLease(t, s, "k")
		e.late = late
		runs := s.calls.Load()
		p, _, ok := s.table().takeLease([]core.Claim{c}, 0, true, s.table().now(), nil)
		if s.quiet(); ok || (p.refill != nil) == late || (s.calls.Load() > runs) == late {
			t.Errorf("late: %v: decided: %v, waits: %v, %d calls", late, ok, p.refill != nil, s.calls.Load()-runs)
		}
		if !late && (e.available() != 2 || s.calls.Load() != runs+1) {
			t.Errorf("%d left of its refill, in %d calls, want 2 in one", e.available(), s.calls.Load()-runs)
		}
	}
}

// TestARequestOfSeveralKeysWaitsForNoRefill checks that the store decides it in one call, where each refill would be one more.
func TestARequestOfSeveralKeysWaitsForNoRefill(t *testing.T) {
	s := newFake(t)
	a, _ := emptyLease(t, s, "a")
	b, _ := emptyLease(t, s, "b")
	claims, runs := []core.Claim{a, b}, s.calls.Load()
	k := &take{table: s.table(), claims: claims}
	k.takeLocal(t.Context())
	if s.quiet(); len(k.rest) != 2 || s.calls.Load() != runs {
		t.Errorf("%d of 2 are left to the store, after %d calls", len(k.rest), s.calls.Load()-runs)
	}
}

// A request that neither loan has enough for asks for no further refill, which would replace the next loan.
func TestALeaseWithTwoLoansAsksForNoRefill(t *testing.T) {
	s, c, e := lent(t)
	at, n := s.ahead(c, 10)
	e.credit(s.table().now(), e.terms.length, at, e.until, n)
	e.use(4)
	c.Cost = 11
	_, _, ok := s.table().takeLease([]core.Claim{c}, 0, true, s.table().now(), nil)
	expect.True(t, !ok && e.refill == nil && e.available() == 20, "decided: %v, %d left", ok, e.available())
}

func TestAKeyThatIsUsedAgainWithinItsLeaseIsLeased(t *testing.T) {
	k, other := leasedFor("k", "100/d"), leasedFor("other", "100/d")
	for _, claims := range [][]core.Claim{{k}, {k, other}} {
		for after, want := range map[time.Duration]int{k.Lease - time.Microsecond: len(claims), k.Lease: 0} {
			synctest.Test(t, func(t *testing.T) {
				s := newFake(t)
				must.Get(s.Take(t.Context(), claims, nil))(t)
				time.Sleep(after)
				must.Get(s.Take(t.Context(), claims, nil))(t)
				expect.Equal(t, s.LeaseStats().Keys, want, "%d claims, again after %v: keys", len(claims), after)
			})
		}
	}
}

// TestAColdKeyAllocatesNothing checks that a key that is asked for once costs nothing beside its call.
func TestAColdKeyAllocatesNothing(t *testing.T) {
	table, ctx := New(new(admitting)), t.Context()
	claims, room := []core.Claim{leasedFor("k", "100/d")}, make([]core.Result, 0, 1)
	if n := testing.AllocsPerRun(100, func() {
		table.asked.Note(table.hash(claims[0].Rule, "k"), -time.Minute)
		_, _, err := table.Take(ctx, claims, room)
		expect.NoError(t, err, "unexpected error")
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

type admitting struct{ Store }

func (admitting) Take(_ context.Context, claims []core.Claim, _ []core.Settlement, dst []core.Result) ([]core.Result, time.Time, error) {
	return append(dst, core.Result{Allowed: true, Limit: claims[0].Limits[0], Remaining: 9}), time.Time{}, nil
}

// TestAKeyNearItsLimitIsNotLeased checks that no refill is asked for where half of what remains is nothing.
func TestAKeyNearItsLimitIsNotLeased(t *testing.T) {
	for limits, keys := range map[string]int{"2/d": 0, "3/d": 1, "2/d, 3/h": 0, "3/d, 2/h": 0, "3/d, 3/h": 1} {
		s := newFake(t)
		c := leasedFor("k", limits)
		for range 2 {
			s.decide(t, c)
		}
		if s.quiet(); s.LeaseStats().Keys != keys || keys == 0 && s.calls.Load() != 2 {
			t.Errorf("%s: %d keys are leased after 2 requests, in %d calls", limits, s.LeaseStats().Keys, s.calls.Load())
		}
	}
}

// TestAKeyOverItsLimitRests checks that each request of a leased key whose limit is used up is one call that asks for
// no refill, and that the key is leased again after a pause without a denial.
func TestAKeyOverItsLimitRests(t *testing.T) {
	s := newFake(t)
	c := leasedFor("k", "20/d")
	e := s.lend(t, c, 10)
	c.Cost = 20
	s.take(t, c)
	c.Cost = 1
	for range 5 {
		runs := s.calls.Load()
		if s.take(t, c); s.calls.Load() != runs+1 || e.pause != pauseSpans || e.refill != nil {
			t.Errorf("%d calls, a pause of %d", s.calls.Load()-runs, e.pause)
		}
		s.table().pass(10 * time.Second)
	}
	must.Do(t, s.Reset(t.Context(), []core.Pair{{Key: "k"}}))
	for range 3 {
		s.take(t, c)
		s.quiet()
	}
	expect.Equal(t, s.LeaseStats().Keys, 1, "keys leased once the limit has recovered")
}

// busyEntry returns a claim of a store with an entry that is busy, and of which nothing is left.
func busyEntry(t *testing.T) (*fake, core.Claim) {
	s := newFake(t)
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100000/d"), Lease: 10 * time.Second}
	for i := 0; i < 100 && s.LeaseStats().Decisions < 8; i++ {
		s.decide(t, c)
	}
	s.withEntry(t, func(e *entry) { e.left, e.next = 0, nil })
	return s, c
}

// A request that finds nothing left of a busy lease asks for a refill and is decided from it, so that others do not ask the store.
func TestARequestOfABusyKeyWaitsForARefill(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*entry, *core.Claim)
		waits  bool
	}{
		"busy":             {func(*entry, *core.Claim) {}, true},
		"large":            {func(_ *entry, c *core.Claim) { c.Cost = 500 }, true},
		"not busy":         {func(e *entry, _ *core.Claim) { e.used = [2]uint32{3, 3} }, false},
		"a peek":           {func(_ *entry, c *core.Claim) { c.Peek = true }, false},
		"refills are late": {func(e *entry, _ *core.Claim) { e.late = true }, false},
		"during a pause":   {func(e *entry, _ *core.Claim) { e.pause = pauseSpans }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := busyEntry(t)
			s.withEntry(t, func(e *entry) { row.change(e, &c) })
			before := s.LeaseStats().Decisions
			p, _, ok := s.leases.takeLease([]core.Claim{c}, 0, true, 0, nil)
			waits := p.refill != nil
			expect.True(t, !ok && waits == row.waits, "decided: %v, waits for a refill: %v", ok, waits)
			s.decide(t, c)
			expect.True(t, !row.waits || s.LeaseStats().Decisions == before+1, "not decided from a refill")
		})
	}
}

// A peek takes nothing from a lease, and sees what its own process holds.
func TestAPeekTakesNothingFromALease(t *testing.T) {
	s, peek := newFake(t), leasedFor("k", "100/d")
	s.lend(t, peek, 10)
	peek.Peek = true
	for _, row := range []struct {
		cost           int
		local, allowed bool
	}{{1, true, true}, {10, true, true}, {10, true, true}, {100, false, true}, {101, false, false}} {
		peek.Cost = row.cost
		_, local := s.TakeLocal([]core.Claim{peek}, nil)
		if r := s.decide(t, peek)[0]; local != row.local || r.Allowed != row.allowed || r.Remaining != 100 {
			t.Errorf("a cost of %d: decided from the lease: %v, %+v", row.cost, local, r)
		}
	}
}
