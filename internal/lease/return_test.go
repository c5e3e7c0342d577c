package lease

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/oracle"
)

// A sweep begins when the earliest of those asked for is due.
func TestASweepBeginsInTime(t *testing.T) {
	for why, row := range map[string]struct {
		asked []time.Duration
		want  time.Duration
	}{
		"one":             {[]time.Duration{100 * ms}, 100 * ms},
		"an earlier one":  {[]time.Duration{100 * ms, 50 * ms}, 50 * ms},
		"a later one":     {[]time.Duration{50 * ms, 100 * ms}, 50 * ms},
		"the same":        {[]time.Duration{50 * ms, 50 * ms}, 50 * ms},
		"between the two": {[]time.Duration{100 * ms, 30 * ms, 60 * ms}, 30 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := New(nil)
			for round := range 2 { // the second time the timer is there
				for _, d := range row.asked {
					table.arm(d)
				}
				time.Sleep(row.want - time.Nanosecond)
				synctest.Wait()
				before := table.due()
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				after := table.due()
				expect.True(t, before != 0 && after <= 0, "%s, round %d: due before: %v, after: %v", why, round+1, before, after)
			}
		})
	}
}

// Arming a second time for the same instant does not delay a sweep.
func TestASweepIsNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(nil)
		for range 3 {
			table.arm(100 * ms)
			time.Sleep(40 * ms)
		}
		synctest.Wait()
		expect.AtMost(t, table.due(), 0, "no sweep after 120 ms")
	})
}

// Sweeps continue as long as there are leases, at the interval of the shortest lease.
func TestSweepsGoOnWhileThereAreLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(processStore{newFake(t).server})
		for i, length := range []time.Duration{300 * ms, 100 * ms, 200 * ms} {
			c := core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits("5/m"), Lease: length}
			shard, hash := table.placeOf(c)
			shard.mu.Lock()
			table.add(hash, &c).use(1)
			shard.mu.Unlock()
		}
		for n, want := range []struct {
			at    time.Duration
			keys  int64
			every time.Duration
		}{{100 * ms, 3, 100 * ms}, {200 * ms, 2, 200 * ms}, {400 * ms, 1, 300 * ms}, {700 * ms, 0, 0}} {
			time.Sleep(time.Until(table.begun.Add(want.at)))
			synctest.Wait()
			if every := table.due(); table.keys.Load() != want.keys || every != want.every {
				t.Errorf("sweep %d: %d keys, the next within %v, want %+v", n+1, table.keys.Load(), every, want)
			}
		}
	})
}

func TestReturnsAreDueWithinALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, c := New(nil), leasedFor("k", "5/m")
		e := &entry{key: c.Key, terms: table.termsOf(&c)}
		table.returnLater(table.refunds(e))
		expect.True(t, table.every <= 0 && len(table.unused) <= 0, "nothing is to be returned")
		e.add(1, 2)
		table.returnLater(table.refunds(e))
		expect.True(t, table.toReturn() == 2 && table.every == c.Lease, "%d to be returned within %v", table.toReturn(), table.every)
		table.timer.Stop()
	})
}

// A sweep returns what is left of leases that have ended, of entries that stay too, unless the next refill will do that.
func TestASweepReturnsWhatHasEnded(t *testing.T) {
	for why, row := range map[string]struct {
		change   func(*Table, *entry)
		keys     int
		returned uint64
	}{
		"lent":            {func(*Table, *entry) {}, 1, 0},
		"ended":           {func(table *Table, _ *entry) { table.pass(10 * time.Second) }, 0, 10},
		"ended, but used": {func(_ *Table, e *entry) { e.drop(1, 1); e.used[0] = 1 }, 1, 0},
		"used before":     {func(_ *Table, e *entry) { e.drop(1, 1); e.used[1] = 1 }, 1, 10},
		"ended early":     {func(_ *Table, e *entry) { e.drop(1, 1) }, 0, 10},
		"a refill":        {func(_ *Table, e *entry) { e.drop(1, 1); e.refill = new(refill) }, 1, 10},
	} {
		s, c := newFake(t), leasedFor("k", "100/d")
		row.change(s.table(), s.lend(t, c, 10))
		s.table().sweep()
		s.table().sweep() // finds nothing more
		stats := s.LeaseStats()
		expect.True(t, stats.Keys == row.keys && stats.Returned == row.returned && s.remains(t, c) == int64(90+row.returned),
			"%s: %+v, %d remain", why, stats, s.remains(t, c))
	}
}

// A reset by another process reaches a loan from before it, but not the refill that follows.
func TestWhatWasLentAfterAResetIsReturned(t *testing.T) {
	s, c, e := lent(t)
	_, hash := s.table().placeOf(c)
	s.pass(ms)
	must.Do(t, s.process(t).Reset(t.Context(), []core.Pair{{Rule: c.Rule, Key: c.Key}}))
	s.pass(ms)
	e.refill = new(refill)
	s.table().refills.Add(1)
	s.table().fill(hash, e, 20, nil, time.Minute)
	expect.Equal(t, s.remains(t, c), 80, "remain while both are lent")
	s.table().pass(c.Lease)
	s.table().sweep()
	expect.Equal(t, s.remains(t, c), 100, "remain after the lease")
}

// What has drained is not refunded by a call: that would change nothing.
func TestDrainedRequestsAreReturnedWithoutACall(t *testing.T) {
	for why, row := range map[string]struct {
		limits string
		change func(*entry, int64)
		calls  int64
	}{
		"a bucket":              {"100/s", func(*entry, int64) {}, 0},
		"a bucket that drains":  {"100/h", func(*entry, int64) {}, 1},
		"two buckets":           {"100/s, 100/h", func(*entry, int64) {}, 1},
		"a window that is over": {"100/s;fixed-window", func(*entry, int64) {}, 0},
		"a window":              {"100/d;fixed-window", func(*entry, int64) {}, 1},
		"others have charged":   {"100/s", func(e *entry, now int64) { e.first.reset = now + int64(time.Second) }, 1},
		"no report since":       {"100/s", func(e *entry, _ int64) { e.heard-- }, 1},
	} {
		s, c := newFake(t), leasedFor("k", row.limits)
		e := s.lend(t, c, 10)
		s.table().pass(c.Lease)
		s.pass(c.Lease)
		row.change(e, s.table().now())
		before := s.calls.Load()
		s.table().sweep()
		calls, stats := s.calls.Load()-before, s.LeaseStats()
		expect.True(t, calls == row.calls && stats.Keys == 0 && stats.Returned == 10, "%s: %d calls, %+v", why, calls, stats)
	}
}

// If thousands of leases end at once, several calls return them, some in each call.
func TestASweepReturnsInSeveralCalls(t *testing.T) {
	s := newFake(t)
	c := leasedFor("k", "1000/d")
	at, n := s.ahead(c, 2*maxReturns+1)
	e := &entry{key: c.Key, terms: s.table().termsOf(&c)}
	for range n {
		e.add(at, 1)
		s.table().returnLater(s.table().refunds(e))
	}
	runs := s.calls.Load()
	s.table().sweep()
	got := s.calls.Load() - runs
	expect.True(t, got == 3 && s.remains(t, c) == 1000, "%d calls, and %d remain", got, s.remains(t, c))
}

// If the server takes longer than a lease, the next sweep waits for this one.
func TestSweepsDoNotOverlap(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	at, n := s.ahead(c, 10)
	table := s.table()
	e := &entry{key: c.Key, terms: table.termsOf(&c)}
	e.add(at, n)
	table.returnLater(table.refunds(e))
	called := false
	s.next(func() error {
		if called = true; table.sweeping.TryLock() {
			t.Error("another sweep could begin during a call")
			table.sweeping.Unlock()
		}
		return nil
	})
	table.sweep()
	expect.True(t, called, "nothing was returned")
}

// A server that is stuck holds up a sweep for returnTimeout.
func TestASweepEndsAlthoughTheServerIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, c := New(stuck{}), leasedFor("k", "100/d")
		e := &entry{key: c.Key, terms: table.termsOf(&c)}
		e.add(1, 10)
		table.returnLater(table.refunds(e))
		begun := time.Now()
		table.sweep()
		if took := time.Since(begun); took != returnTimeout || table.toReturn() != 10 {
			t.Errorf("a sweep took %v, want %v, and %d are to be returned", took, returnTimeout, table.toReturn())
		}
		table.Stop()
	})
}

// A stuck store does nothing until the deadline of a call, which it waits for no longer than 5 s.
type stuck struct{ Store }

func (stuck) Refund(ctx context.Context, unused []core.Settlement) []error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	<-ctx.Done()
	return slices.Repeat([]error{NotRefunded{ctx.Err()}}, len(unused))
}

// usedLease returns a lease of 10 requests of which 3 were taken, and a settlement of these at 1.
func usedLease(t *testing.T) (*fake, *entry, core.Settlement) {
	s, c, e := lent(t)
	c.Cost = 3
	r, ok := s.TakeLocal([]core.Claim{c}, nil)
	must.True(t, ok, "not decided from the lease")
	st := oracle.Settlement(c, r[0].At)
	st.Final = 1
	return s, e, st
}

func TestARefundGoesIntoTheLeaseAsFarAsItCan(t *testing.T) {
	for why, row := range map[string]struct {
		change func(*fake, *core.Settlement)
		left   int64
		final  int
	}{
		"all of it":          {func(*fake, *core.Settlement) {}, 9, 3},
		"what was taken":     {func(_ *fake, c *core.Settlement) { c.Cost, c.Final = 9, 0 }, 10, 3},
		"other limits":       {func(_ *fake, c *core.Settlement) { c.Limits = core.MustParseLimits("99/d") }, 7, 1},
		"after its end":      {func(s *fake, _ *core.Settlement) { s.table().pass(10 * time.Second) }, 0, 1},
		"of an earlier loan": {func(_ *fake, c *core.Settlement) { c.At = c.At.Add(-time.Second) }, 7, 1},
	} {
		t.Run(why, func(t *testing.T) {
			s, e, c := usedLease(t)
			row.change(s, &c)
			settlements := []core.Settlement{c}
			own := s.leases.Refund(settlements)
			expect.True(t, e.available() == row.left && own[0].Final == row.final && own[0].At.Equal(c.At.Add(-c.Lease)),
				"%d left, and the store settles %+v", e.available(), own[0])
			expect.True(t, settlements[0].Final == c.Final && settlements[0].At.Equal(c.At),
				"the settlement has become %+v", settlements[0])
		})
	}
}

// A pair that this process has leased may have no lease any more.
func TestARefundAfterItsLeaseCountsAsChargedALeaseEarlier(t *testing.T) {
	s, _, c := usedLease(t)
	s.leases.End([]core.Pair{{Rule: c.Rule, Key: c.Key}})
	own := s.leases.Refund([]core.Settlement{c})
	expect.True(t, own[0].Final == 1 && own[0].At.Equal(c.At.Add(-c.Lease)), "the store settles %+v", own[0])
}

// A settlement that does not refund a leased request goes to the store unchanged.
func TestOtherSettlementsLeaveLeasesAlone(t *testing.T) {
	for why, change := range map[string]func(*core.Settlement){
		"the same cost":    func(c *core.Settlement) { c.Final = 3 },
		"a further charge": func(c *core.Settlement) { c.Final = 4 },
		"no lease":         func(c *core.Settlement) { c.Lease = 0 },
		"a hold":           func(c *core.Settlement) { c.Held = true },
		"a renewal":        func(c *core.Settlement) { c.Renew = true },
		"a ban":            func(c *core.Settlement) { c.Ban = time.Hour },
		"a grant":          func(c *core.Settlement) { c.Grant = 1 },
		"never leased":     func(c *core.Settlement) { c.Key = "other" },
	} {
		s, e, c := usedLease(t)
		change(&c)
		settlements := []core.Settlement{c}
		if own := s.leases.Refund(settlements); &own[0] != &settlements[0] || e.available() != 7 {
			t.Errorf("%s: %d left, and the store settles %+v", why, e.available(), own[0])
		}
	}
}

func TestEachSettlementIsRefundedByItself(t *testing.T) {
	s, e, c := usedLease(t)
	charge := c
	charge.Final = 5
	one, two := c, c
	one.Cost, two.Cost, two.Final = 2, 2, 0
	own := s.leases.Refund([]core.Settlement{charge, one, two})
	expect.True(t, e.available() == 10 && own[0].Final == 5 && own[1].Final == 2 && own[2].Final == 2,
		"%d left, the store settles at %d, %d and %d", e.available(), own[0].Final, own[1].Final, own[2].Final)
}

// A peek, for example, sees what an ended lease has left.
func TestTheNextCallReturnsALeaseThatIsEnded(t *testing.T) {
	s, e, c := usedLease(t)
	s.leases.End([]core.Pair{{Key: "other"}})
	expect.Equal(t, e.available(), 7, "a lease ended that is not in the list")
	s.leases.End([]core.Pair{{Key: "other"}, {Rule: c.Rule, Key: c.Key}})
	expect.Equal(t, e.available(), 0, "left")
	expect.Equal(t, s.take(t, core.Claim{Key: c.Key, Limits: c.Limits, Lease: c.Lease, Peek: true})[0].Remaining, 97, "remaining")
}
