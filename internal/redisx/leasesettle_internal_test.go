package redisx

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// usedLease returns a lease of 10 requests of which 3 were taken, and a settlement of these at 1.
func usedLease(t *testing.T) (*Store, *leaseEntry, core.Settlement) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
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
		change func(*Store, *core.Settlement)
		left   int64
		final  int
	}{
		"all of it":         {func(*Store, *core.Settlement) {}, 9, 3},
		"what was taken":    {func(_ *Store, c *core.Settlement) { c.Cost, c.Final = 9, 0 }, 10, 3},
		"other limits":      {func(_ *Store, c *core.Settlement) { c.Limits = core.MustParseLimits("99/d") }, 7, 1},
		"another key":       {func(_ *Store, c *core.Settlement) { c.Key = "other" }, 7, 1},
		"after its end":     {func(s *Store, _ *core.Settlement) { s.table().pass(10 * time.Second) }, 0, 1},
		"the first instant": {func(s *Store, c *core.Settlement) { c.At = s.chargedAt(0) }, 9, 3},
		"too early":         {func(s *Store, c *core.Settlement) { c.At = s.chargedAt(-1) }, 7, 1},
		"another portion": {func(_ *Store, c *core.Settlement) {
			c.At = c.At.Truncate(time.Microsecond).Add(markOf(c.At.UnixMicro()/999*999 + 998))
		}, 7, 1},
	} {
		t.Run(why, func(t *testing.T) {
			s, e, c := usedLease(t)
			row.change(s, &c)
			settlements := []core.Settlement{c}
			own := s.settleLocal(s.table(), settlements)
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
func (s *Store) chargedAt(micros int64) time.Time {
	for i := range s.table().shards {
		for _, e := range s.table().shards[i].entries {
			return time.UnixMicro(e.at[0] + micros).Add(markOf(e.at[0]))
		}
	}
	return time.Time{}
}

// What is no refund of a leased request is left to the store as it is.
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
		if own := s.settleLocal(s.table(), settlements); &own[0] != &settlements[0] || e.available() != 7 {
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
	own := s.settleLocal(s.table(), []core.Settlement{charge, one, two})
	if e.available() != 10 || own[0].Final != 5 || own[1].Final != 2 || own[2].Final != 2 {
		t.Errorf("%d left, the store settles at %d, %d and %d", e.available(), own[0].Final, own[1].Final, own[2].Final)
	}
}

func TestALeaseThatIsEndedIsGivenBack(t *testing.T) {
	s, e, c := usedLease(t)
	table := s.table()
	s.endLeases([]core.Pair{{Key: "other"}})
	if e.available() != 7 {
		t.Error("a lease has ended that is none of these")
	}
	s.endLeases([]core.Pair{{Key: "other"}, {Rule: c.Rule, Key: c.Key}})
	if e.available() != 0 || table.toReturn() != 7 || s.LeaseStats().Keys != 0 || e.terms != nil {
		t.Errorf("%d left, %d to be given back, %d keys", e.available(), table.toReturn(), s.LeaseStats().Keys)
	}
	table.sweep()
	if n := s.remains(t, *claimOf(&c)); n != 97 {
		t.Errorf("%d remain, want 97", n)
	}
}
