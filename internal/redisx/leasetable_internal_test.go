package redisx

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestWhichClaimsCanBeLeased(t *testing.T) {
	for why, row := range map[string]struct {
		change func(*core.Claim)
		want   bool
	}{
		"buckets and fixed windows": {func(*core.Claim) {}, true},
		"no lease":                  {func(c *core.Claim) { c.Lease = 0 }, false},
		"a dry run":                 {func(c *core.Claim) { c.DryRun = true }, false},
		"a hold":                    {func(c *core.Claim) { c.Hold = true }, false},
		"a negative cost":           {func(c *core.Claim) { c.Cost = -1 }, false},
		"no limits":                 {func(c *core.Claim) { c.Limits = nil }, false},
		"one that cannot":           {func(c *core.Claim) { c.Limits = core.MustParseLimits("5/m, 9/h;sliding-window") }, false},
		"in flight":                 {func(c *core.Claim) { c.Limits = core.MustParseLimits("5 at once") }, false},
		"a ban":                     {func(c *core.Claim) { c.Limits = core.MustParseLimits("5/m;ban=1h") }, false},
	} {
		c := leasedFor("k", "5/m, 9/h;fixed-window")
		if row.change(&c); leasable(&c) != row.want {
			t.Errorf("%s: %v", why, !row.want)
		}
	}
}

// Entries share their terms, of which the table keeps a bounded number.
func TestEntriesShareTheirTerms(t *testing.T) {
	table := newLeaseTable(nil)
	one, other := leasedFor("k", "5/m"), leasedFor("o", "5/m")
	if first := table.termsOf(&one); table.termsOf(&other) != first || !first.fit(&one) {
		t.Error("the same terms are there twice")
	}
	other.Lease = time.Second
	if table.termsOf(&other) == table.termsOf(&one) {
		t.Error("two lengths have the same terms")
	}
	for i := range maxKnown + 5 {
		one.Lease = time.Duration(i) * time.Millisecond
		if terms := table.termsOf(&one); !terms.fit(&one) || len(table.known) > maxKnown {
			t.Errorf("%d terms are kept, the last for %v", len(table.known), terms.length)
		}
	}
	if len(table.known) != maxKnown {
		t.Errorf("%d terms are kept, want %d", len(table.known), maxKnown)
	}
}

func TestNoInstantIsZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newLeaseTable(nil)
		if at := table.now(); at != 1 {
			t.Errorf("at once: %d, want 1", at)
		}
		time.Sleep(time.Second)
		if at := table.now(); at != 1e9+1 {
			t.Errorf("after a second: %d", at)
		}
	})
}

func TestLeasesAreLookedForIfThereAreAny(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	other := c
	other.Lease = 0
	none := func(why string) {
		t.Helper()
		if s.leasesFor([]core.Claim{other}) != nil {
			t.Error(why)
		}
	}
	none("before the first claim with a lease")
	table := s.leasesFor([]core.Claim{other, c})
	if table == nil || s.leasesFor([]core.Claim{c}) != table {
		t.Fatal("a claim with a lease finds no table, or another one")
	}
	none("nothing is leased")
	s.lend(t, c, 10)
	if s.leasesFor([]core.Claim{other}) != table {
		t.Error("what is leased is not looked for")
	}
}

func TestAnEntryCountsUntilItIsRemoved(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	table := s.table()
	shard, hash, key := table.placeOf(c)
	e := table.add(shard, hash, key, &c)
	if e == nil || table.add(shard, hash, key, &c) != nil || shard.find(hash, key) != e {
		t.Fatal("an entry was added twice, or not at all")
	}
	if n := s.LeaseStats().Keys; n != 1 || !table.armed || table.every != c.Lease {
		t.Errorf("%d keys, a sweep: %v in %v", n, table.armed, table.every)
	}
	if shard.find(hash, []byte("other")) != nil {
		t.Error("another key of the same hash finds it")
	}
	table.remove(shard, hash, e)
	if n := s.LeaseStats().Keys; n != 0 || e.terms != nil || shard.find(hash, key) != nil {
		t.Errorf("removed: %d keys, terms %v", n, e.terms)
	}
}
