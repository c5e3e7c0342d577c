package lease

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
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
		"a long key":                {func(c *core.Claim) { c.Key = strings.Repeat("k", maxKey+1) }, false},
		"a peek":                    {func(c *core.Claim) { c.Peek = true }, false},
		"a ban":                     {func(c *core.Claim) { c.Limits = core.MustParseLimits("5/m;ban=1h") }, false},
	} {
		c := leasedFor("k", "5/m, 9/h;fixed-window")
		row.change(&c)
		expect.Equal(t, leasable(&c), row.want, "%s: %v", why, !row.want)
	}
}

// Entries share their terms, of which the table keeps a bounded number.
func TestEntriesShareTheirTerms(t *testing.T) {
	table := New(nil)
	one, other := leasedFor("k", "5/m"), leasedFor("o", "5/m")
	first := table.termsOf(&one)
	expect.True(t, table.termsOf(&other) == first && first.fit(&one), "the same terms are there twice")
	other.Lease = time.Second
	expect.NotEqual(t, table.termsOf(&other), table.termsOf(&one), "two lengths have the same terms")
	for i := range maxKnown + 5 {
		one.Lease = time.Duration(i) * time.Millisecond
		if terms := table.termsOf(&one); !terms.fit(&one) || len(table.known) > maxKnown {
			t.Errorf("%d terms are kept, the last for %v", len(table.known), terms.length)
		}
	}
	expect.Equal(t, len(table.known), maxKnown, "terms kept")
}

func TestNoInstantIsZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(nil)
		expect.Equal(t, table.now(), 1, "at once")
		time.Sleep(time.Second)
		expect.Equal(t, table.now(), 1e9+1, "after a second")
	})
}

func TestAnEntryCountsUntilItIsRemoved(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	table := s.table()
	shard, hash := table.placeOf(c)
	e := table.add(hash, &c)
	must.True(t, e != nil && table.add(hash, &c) == nil && shard.find(hash, c.Rule, c.Key) == e, "an entry was added twice, or not at all")
	n := s.LeaseStats().Keys
	expect.True(t, n == 1 && table.every == c.Lease, "%d keys, a sweep within %v", n, table.every)
	expect.True(t, shard.find(hash, "", "other") == nil && shard.find(hash, "other", c.Key) == nil, "another key of the same hash finds it")
	table.remove(hash, e)
	n = s.LeaseStats().Keys
	expect.True(t, n == 0 && e.gone && shard.find(hash, c.Rule, c.Key) == nil, "removed: %d keys, gone: %v", n, e.gone)
}

// What the store admits counts as used. A refill is asked for if more than one request remains.
func TestAdmittedRequestsCountAsUsed(t *testing.T) {
	s := newFake(t)
	a, b := leasedFor("a", "100/d"), leasedFor("b", "100/d")
	a.Cost, b.Cost = 3, 2
	one, two := s.lend(t, a, 1), s.lend(t, b, 1)
	one.left, two.left = 0, 0
	s.table().pass(20 * time.Second) // two spans
	runs := s.calls.Load()
	s.restOf(a, b).count([]core.Result{{Allowed: true, Remaining: 1}, {Allowed: true, Remaining: 2}})
	s.quiet()
	expect.True(t, one.used == [2]uint32{3, 0} && two.used == [2]uint32{2, 0}, "used %v and %v", one.used, two.used)
	expect.True(t, one.available() == 0 && two.available() == 2 && s.calls.Load() == runs+1,
		"lent %d of 1 that remains and %d of 2, in %d calls", one.available(), two.available(), s.calls.Load()-runs)
}

func TestUsageCountsInTheCurrentSpan(t *testing.T) {
	s, c, e := lent(t)
	e.used[0] = 7
	s.table().pass(10 * time.Second)
	s.restOf(c).count([]core.Result{{Allowed: true}})
	expect.Equal(t, e.used, [2]uint32{1, 7}, "used (1 in this span and 7 in the last)")
}

// These claims do not count as used, so nothing is charged ahead for them.
func TestClaimsThatCannotBeLeasedDoNotCount(t *testing.T) {
	for why, change := range map[string]func(*core.Claim){
		"a peek":       func(c *core.Claim) { c.Peek = true },
		"a dry run":    func(c *core.Claim) { c.DryRun = true },
		"other limits": func(c *core.Claim) { c.Limits = core.MustParseLimits("99/d") },
		"twice":        func(*core.Claim) {},
	} {
		s, c := newFake(t), leasedFor("k", "100/d")
		e, claims := s.lend(t, c, 10), []core.Claim{c}
		if change(&claims[0]); why == "twice" {
			claims = append(claims, c)
		}
		s.restOf(claims...).count(make([]core.Result, len(claims)))
		expect.Equal(t, e.used[0], 0, "%s: used %v", why, e.used)
	}
}

// A key is worth a lease if it was used less than a Lease ago. The microseconds of that use may have wrapped around since.
func TestAKeyIsLeasedOnceItIsAskedForAgain(t *testing.T) {
	s, c := newFake(t), leasedFor("k", "100/d")
	shard, hash := s.table().placeOf(c)
	for i := range 3 {
		s.decide(t, c, leasedFor("other", "100/d"))
		s.quiet()
		if e := shard.find(hash, c.Rule, c.Key); (e != nil) != (i > 0) || e != nil && e.used[0] != uint32(i) {
			t.Errorf("asked for %d times: %+v", i+1, e)
		}
	}
}
