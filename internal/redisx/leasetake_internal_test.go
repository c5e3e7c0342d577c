package redisx

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
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
		if got := sharesPair(claims, 0); got != row.want {
			t.Errorf("%s: %v", why, got)
		}
		if got := sharesPair(claims, 2); got != row.want {
			t.Errorf("%s, the other way round: %v", why, got)
		}
	}
	if !sharesPair([]core.Claim{{Key: "k"}, {Rule: "default", Key: "k"}}, 0) {
		t.Error("the name of a rule without one is default")
	}
}

// Nothing of these is decided from a lease of 10.
func TestWhatALeaseCannotDecide(t *testing.T) {
	for why, row := range map[string]struct {
		change func(*leaseTable, *core.Claim)
		twice  bool
	}{
		"a cost of more":  {func(_ *leaseTable, c *core.Claim) { c.Cost = 11 }, false},
		"a dry run":       {func(_ *leaseTable, c *core.Claim) { c.DryRun = true }, false},
		"a hold":          {func(_ *leaseTable, c *core.Claim) { c.Hold = true }, false},
		"a negative cost": {func(_ *leaseTable, c *core.Claim) { c.Cost = -1 }, false},
		"other limits":    {func(_ *leaseTable, c *core.Claim) { c.Limits = core.MustParseLimits("99/d") }, false},
		"without a lease": {func(_ *leaseTable, c *core.Claim) { c.Lease = 0 }, false},
		"after its end":   {func(table *leaseTable, _ *core.Claim) { table.pass(10 * time.Second) }, false},
		"the same twice":  {func(*leaseTable, *core.Claim) {}, true},
	} {
		s, c := frozenStore(t), leasedFor("k", "100/d")
		e := s.lend(t, c, 10)
		row.change(s.table(), &c)
		claims := []core.Claim{c}
		if row.twice {
			claims = append(claims, c)
		}
		if r, ok := s.TakeLocal(claims, nil); ok || len(r) > 0 || s.LeaseStats().Decisions != 0 {
			t.Errorf("%s: %+v, %d left", why, r, e.available())
		}
	}
}

// A peek that was decided from a lease took nothing that could be put back.
func TestAPeekIsNotPutBack(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	peek, cold := c, leasedFor("cold", "100/d")
	peek.Peek = true
	if _, ok := s.TakeLocal([]core.Claim{peek, cold}, nil); ok || s.LeaseStats().Decisions != 0 || e.available() != 10 {
		t.Errorf("%+v, %d left", s.LeaseStats(), e.available())
	}
	other := leasedFor("o", "100/d")
	s.lend(t, other, 10)
	if _, ok := s.TakeLocal([]core.Claim{other, cold}, nil); ok || s.LeaseStats().Decisions != 0 {
		t.Errorf("%+v", s.LeaseStats())
	}
}

// What was taken on terms that have changed meanwhile is given back to the store, as charged when its portions were.
func TestWhatWasTakenOnOldTermsGoesBackToTheStore(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	table, at, old := s.table(), e.at[0], e.terms
	c.Cost = 4
	p, _, ok := s.takeLease(table, &c, waitIfBusy, nil)
	c.Limits = core.MustParseLimits("99/d")
	table.change(e, &c)
	table.putBack([]localTake{p, {}})
	if !ok || len(table.unused) != 1 || table.unused[0].terms != old || table.unused[0].backs != (backs{{at, 4}}) {
		t.Errorf("decided: %v, to be given back: %+v", ok, table.unused)
	}
	if s.LeaseStats().Decisions != 0 {
		t.Error("the decision counts")
	}
}

// A lease that has too little is ended if the store is about to be asked.
func TestALeaseWithTooLittleIsEnded(t *testing.T) {
	for _, then := range []dry{waitIfBusy, endLease} {
		s, c := frozenStore(t), leasedFor("k", "100/d")
		e, end := s.lend(t, c, 10), then == endLease
		c.Cost = 11
		p, _, ok := s.takeLease(s.table(), &c, then, nil)
		if ok || p.cold || p.ended != end || (p.backs.sum() == 10) != end || (e.available() == 0) != end || e.hasUnused() {
			t.Errorf("end: %v: %+v, %d left", end, p, e.available())
		}
	}
	s, c := frozenStore(t), leasedFor("k", "100/d")
	if p, _, ok := s.takeLease(s.table(), &c, endLease, nil); ok || !p.cold {
		t.Errorf("a key without a lease: %+v", p)
	}
}
