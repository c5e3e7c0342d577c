package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
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
				before, _ := table.due()
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if after, _ := table.due(); !before || after {
					t.Errorf("%s, round %d: due before: %v, after: %v", why, round+1, before, after)
				}
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
		if due, _ := table.due(); due {
			t.Error("no sweep after 120 ms")
		}
	})
}

// Sweeps continue as long as there are leases, at the interval of the shortest lease.
func TestSweepsGoOnWhileThereAreLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(newFake(t))
		for i, length := range []time.Duration{300 * ms, 100 * ms, 200 * ms} {
			c := core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits("5/m"), Lease: length}
			shard, hash := table.placeOf(c)
			shard.mu.Lock()
			table.add(shard, hash, &c).use(1)
			shard.mu.Unlock()
		}
		for n, want := range []struct {
			at    time.Duration
			keys  int64
			every time.Duration
		}{{100 * ms, 3, 100 * ms}, {200 * ms, 2, 200 * ms}, {400 * ms, 1, 300 * ms}, {700 * ms, 0, 300 * ms}} {
			time.Sleep(time.Until(table.begun.Add(want.at)))
			synctest.Wait()
			if due, every := table.due(); table.keys.Load() != want.keys || every != want.every || due != (want.keys > 0) {
				t.Errorf("sweep %d: %d keys, due: %v within %v, want %+v", n+1, table.keys.Load(), due, every, want)
			}
		}
	})
}

func TestReturnsAreDueWithinALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, c := New(nil), leasedFor("k", "5/m")
		if table.returnLater(pairOf(&c), table.termsOf(&c), Portions{}); table.armed || len(table.unused) > 0 {
			t.Error("nothing is to be returned")
		}
		table.returnLater(pairOf(&c), table.termsOf(&c), Portions{{}, {1, 2}})
		if table.toReturn() != 2 || !table.armed || table.every != c.Lease {
			t.Errorf("%d to be returned, armed: %v for %v", table.toReturn(), table.armed, table.every)
		}
		table.timer.Stop()
	})
}

// A sweep returns what is left of leases that have ended, of entries that stay too, unless the next grant will do that.
func TestASweepReturnsWhatHasEnded(t *testing.T) {
	for why, row := range map[string]struct {
		change   func(*Table, *entry)
		keys     int
		returned uint64
	}{
		"lent":            {func(*Table, *entry) {}, 1, 0},
		"ended":           {func(table *Table, _ *entry) { table.pass(10 * time.Second) }, 0, 10},
		"ended, but used": {func(_ *Table, e *entry) { e.end(); e.used[0] = 1 }, 1, 0},
		"used before":     {func(_ *Table, e *entry) { e.end(); e.used[1] = 1 }, 1, 10},
		"ended early":     {func(_ *Table, e *entry) { e.end() }, 0, 10},
		"a grant":         {func(_ *Table, e *entry) { e.end(); e.rare.grant = new(grant) }, 1, 10},
	} {
		s, c := newFake(t), leasedFor("k", "100/d")
		row.change(s.table(), s.lend(t, c, 10))
		s.table().sweep()
		s.table().sweep() // finds nothing more
		stats := s.LeaseStats()
		if stats.Keys != row.keys || stats.Returned != row.returned || s.remains(t, c) != int64(90+row.returned) {
			t.Errorf("%s: %+v, %d remain", why, stats, s.remains(t, c))
		}
	}
}

// If thousands of leases end at once, several calls return them, some in each call.
func TestASweepReturnsInSeveralCalls(t *testing.T) {
	s := newFake(t)
	c := leasedFor("k", "1000/d")
	at, n := s.ahead(t, c, 2*maxUnused+1)
	for range n {
		s.table().returnLater(pairOf(&c), s.table().termsOf(&c), Portions{{at, 1}})
	}
	runs := s.calls.Load()
	s.table().sweep()
	if got := s.calls.Load() - runs; got != 3 || s.remains(t, c) != 1000 {
		t.Errorf("%d calls, and %d remain", got, s.remains(t, c))
	}
}

// If the server takes longer than a lease, the next sweep waits for this one.
func TestSweepsDoNotOverlap(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	at, n := s.ahead(t, c, 10)
	table := s.table()
	table.returnLater(pairOf(&c), table.termsOf(&c), Portions{{at, n}})
	called := false
	s.next(func() error {
		if called = true; table.sweeping.TryLock() {
			t.Error("another sweep could begin during a call")
			table.sweeping.Unlock()
		}
		return nil
	})
	if table.sweep(); !called {
		t.Error("nothing was returned")
	}
}

// A server that is stuck holds up a sweep for returnTimeout.
func TestASweepEndsAlthoughTheServerIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, c := New(stuck{}), leasedFor("k", "100/d")
		table.returnLater(pairOf(&c), table.termsOf(&c), Portions{{1, 10}})
		begun := time.Now()
		table.sweep()
		if took := time.Since(begun); took != returnTimeout || table.toReturn() != 10 {
			t.Errorf("a sweep took %v, want %v, and %d are to be returned", took, returnTimeout, table.toReturn())
		}
		table.Stop()
	})
}

// A stuck store does nothing until the deadline of a call, which it waits for no longer than 5 s.
type stuck struct{}

func (stuck) Lend(ctx context.Context, _ []core.Claim, loans []Loan, dst []core.Result) ([]core.Result, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	<-ctx.Done()
	return dst, false, fail(loans, notReturned{ctx.Err()})
}

func TestOnlyUnusedRequestsAreSent(t *testing.T) {
	s := newFake(t)
	c := leasedFor("k", "100/d")
	at, n := s.ahead(t, c, 10)
	by, a, b := s.table().termsOf(&c), core.Pair{Key: "a"}, core.Pair{Key: "b"}
	runs := s.calls.Load()
	if s.table().returnNow(t.Context(), []Loan{by.unused(a, Portions{}), by.unused(b, Portions{})}); s.calls.Load() != runs {
		t.Error("a call for nothing")
	}
	s.table().returnNow(t.Context(), []Loan{by.unused(a, Portions{}), by.unused(pairOf(&c), Portions{{at, n}}), by.unused(b, Portions{})})
	if keys := len(s.last); s.calls.Load() != runs+1 || keys != 1 {
		t.Errorf("%d calls, the last for %v keys, want one for one", s.calls.Load()-runs, keys)
	}
	s.next(func() error { return errors.New("cut") })
	s.table().returnNow(t.Context(), []Loan{by.unused(pairOf(&c), Portions{{at, n}})})
	if got := s.LeaseStats().Returned; got != 10 {
		t.Errorf("%d were returned, want 10", got)
	}
}

// usedLease returns a lease of 10 requests of which 3 were taken, and a settlement of these at 1.
func usedLease(t *testing.T) (*fake, *entry, core.Settlement) {
	s, c := newFake(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	c.Cost = 3
	r, ok := s.TakeLocal([]core.Claim{c}, nil)
	if !ok {
		t.Fatal("not decided from the lease")
	}
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
		"all of it":         {func(*fake, *core.Settlement) {}, 9, 3},
		"what was taken":    {func(_ *fake, c *core.Settlement) { c.Cost, c.Final = 9, 0 }, 10, 3},
		"other limits":      {func(_ *fake, c *core.Settlement) { c.Limits = core.MustParseLimits("99/d") }, 7, 1},
		"another key":       {func(_ *fake, c *core.Settlement) { c.Key = "other" }, 7, 1},
		"after its end":     {func(s *fake, _ *core.Settlement) { s.table().pass(10 * time.Second) }, 0, 1},
		"the first instant": {func(s *fake, c *core.Settlement) { c.At = s.chargedAt(0) }, 9, 3},
		"too early":         {func(s *fake, c *core.Settlement) { c.At = s.chargedAt(-1) }, 7, 1},
		"another portion": {func(_ *fake, c *core.Settlement) {
			c.At = c.At.Truncate(time.Microsecond).Add(markOf(c.At.UnixMicro()/999*999 + 998))
		}, 7, 1},
	} {
		t.Run(why, func(t *testing.T) {
			s, e, c := usedLease(t)
			row.change(s, &c)
			settlements := []core.Settlement{c}
			own := s.leases.Refund(settlements)
			if e.available() != row.left || own[0].Final != row.final || !own[0].At.Equal(c.At.Add(-c.Lease)) {
				t.Errorf("%d left, and the store settles %+v", e.available(), own[0])
			}
			if settlements[0].Final != c.Final || !settlements[0].At.Equal(c.At) {
				t.Errorf("the settlement has become %+v", settlements[0])
			}
		})
	}
}

// chargedAt returns the instant of a request that was taken so many microseconds after the only portion was charged.
func (s *fake) chargedAt(micros int64) time.Time {
	for i := range s.table().shards {
		for _, e := range s.table().shards[i].entries {
			return time.UnixMicro(e.at[0] + micros).Add(markOf(e.at[0]))
		}
	}
	return time.Time{}
}

// A settlement that does not refund a leased request goes to the store unchanged.
func TestWhatIsNoRefundDoesNotConcernLeases(t *testing.T) {
	for why, change := range map[string]func(*core.Settlement){
		"the same cost":    func(c *core.Settlement) { c.Final = 3 },
		"a further charge": func(c *core.Settlement) { c.Final = 4 },
		"no lease":         func(c *core.Settlement) { c.Lease = 0 },
		"a hold":           func(c *core.Settlement) { c.Held = true },
		"a renewal":        func(c *core.Settlement) { c.Renew = true },
		"a ban":            func(c *core.Settlement) { c.Ban = time.Hour },
		"of the store":     func(c *core.Settlement) { c.At = c.At.Truncate(time.Microsecond) },
		"no instant":       func(c *core.Settlement) { c.At = time.Time{} },
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
	if e.available() != 10 || own[0].Final != 5 || own[1].Final != 2 || own[2].Final != 2 {
		t.Errorf("%d left, the store settles at %d, %d and %d", e.available(), own[0].Final, own[1].Final, own[2].Final)
	}
}

func TestALeaseThatIsEndedIsReturned(t *testing.T) {
	s, e, c := usedLease(t)
	table := s.table()
	s.leases.End([]core.Pair{{Key: "other"}})
	if e.available() != 7 {
		t.Error("a lease ended that is not in the list")
	}
	s.leases.End([]core.Pair{{Key: "other"}, {Rule: c.Rule, Key: c.Key}})
	if e.available() != 0 || table.toReturn() != 7 || s.LeaseStats().Keys != 0 || e.terms != nil {
		t.Errorf("%d left, %d to be returned, %d keys", e.available(), table.toReturn(), s.LeaseStats().Keys)
	}
	table.sweep()
	if n := s.remains(t, core.Claim{Key: c.Key, Limits: c.Limits}); n != 97 {
		t.Errorf("%d remain, want 97", n)
	}
}
