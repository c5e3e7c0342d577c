package redisx

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
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
			table := newLeaseTable(nil)
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

// To arm for the same time again does not put a sweep off.
func TestASweepIsNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newLeaseTable(nil)
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

// Sweeps go on for as long as there are leases, as often as the shortest one ends.
func TestSweepsGoOnWhileThereAreLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newLeaseTable(&Store{layout: newLayout("p", nil)})
		for i, length := range []time.Duration{300 * ms, 100 * ms, 200 * ms} {
			c := core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits("5/m"), Lease: length}
			shard, hash, key := table.placeOf(c)
			shard.mu.Lock()
			table.add(shard, hash, key, &c).use(1)
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

func TestWhatIsGivenBackIsDueWithinALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, c := newLeaseTable(nil), leasedFor("k", "5/m")
		if table.giveBack("k", table.termsOf(&c), backs{}); table.armed || len(table.unused) > 0 {
			t.Error("nothing is to be given back")
		}
		table.giveBack("k", table.termsOf(&c), backs{{}, {1, 2}})
		if table.toReturn() != 2 || !table.armed || table.every != c.Lease {
			t.Errorf("%d to be given back, armed: %v for %v", table.toReturn(), table.armed, table.every)
		}
		table.timer.Stop()
	})
}

// A sweep gives back what is left of leases that have ended, of entries that stay too, unless the next grant will do that.
func TestASweepGivesBackWhatHasEnded(t *testing.T) {
	for why, row := range map[string]struct {
		change   func(*leaseTable, *leaseEntry)
		keys     int
		returned uint64
	}{
		"lent":            {func(*leaseTable, *leaseEntry) {}, 1, 0},
		"ended":           {func(table *leaseTable, _ *leaseEntry) { table.pass(10 * time.Second) }, 0, 10},
		"ended, but used": {func(_ *leaseTable, e *leaseEntry) { e.end(); e.used[0] = 1 }, 1, 0},
		"used before":     {func(_ *leaseTable, e *leaseEntry) { e.end(); e.used[1] = 1 }, 1, 10},
		"ended early":     {func(_ *leaseTable, e *leaseEntry) { e.end() }, 0, 10},
		"a grant":         {func(_ *leaseTable, e *leaseEntry) { e.end(); e.rare.grant = new(grant) }, 1, 10},
	} {
		s, c := frozenStore(t), leasedFor("k", "100/d")
		row.change(s.table(), s.lend(t, c, 10))
		s.table().sweep()
		s.table().sweep() // finds nothing more
		stats := s.LeaseStats()
		if stats.Keys != row.keys || stats.Returned != row.returned || s.remains(t, c) != int64(90+row.returned) {
			t.Errorf("%s: %+v, %d remain", why, stats, s.remains(t, c))
		}
	}
}

// Of thousands of leases that end at once, each call gives back some.
func TestASweepGivesBackInSeveralCalls(t *testing.T) {
	s, h := tapped(t)
	c := leasedFor("k", "1000/d")
	at, n := s.ahead(t, c, 2*maxUnused+1)
	for range n {
		s.table().giveBack(s.layout.key(c.Rule, c.Key), s.table().termsOf(&c), backs{{at, 1}})
	}
	runs := h.runs.Load()
	s.table().sweep()
	if got := h.runs.Load() - runs; got != 3 || s.remains(t, c) != 1000 {
		t.Errorf("%d calls, and %d remain", got, s.remains(t, c))
	}
}

func TestOnlyWhatIsToBeGivenBackIsSent(t *testing.T) {
	s, h := tapped(t)
	c := leasedFor("k", "100/d")
	at, n := s.ahead(t, c, 10)
	key, by := s.layout.key(c.Rule, c.Key), s.table().termsOf(&c)
	runs := h.runs.Load()
	if s.table().settle(t.Context(), []unused{{"a", by, backs{}}, {"b", by, backs{}}}); h.runs.Load() != runs {
		t.Error("a call for nothing")
	}
	s.table().settle(t.Context(), []unused{{"a", by, backs{}}, {key, by, backs{{at, n}}}, {"b", by, backs{}}})
	if keys := h.last[2]; h.runs.Load() != runs+1 || keys != 1 {
		t.Errorf("%d calls, the last for %v keys, want one for one", h.runs.Load()-runs, keys)
	}
	h.next(func() error { return errors.New("cut") })
	s.table().settle(t.Context(), []unused{{key, by, backs{{at, n}}}})
	if got := s.LeaseStats().Returned; got != 10 {
		t.Errorf("%d were given back, want 10", got)
	}
}
