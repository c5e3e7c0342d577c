package redisx

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// What the store admits counts as used. The next grant is asked for if more than one request remains.
func TestWhatTheStoreAdmitsCountsAsUsed(t *testing.T) {
	s, h := tapped(t)
	a, b := leasedFor("a", "100/d"), leasedFor("b", "100/d")
	a.Cost, b.Cost = 3, 2
	one, two := s.lend(t, a, 1), s.lend(t, b, 1)
	one.left, two.left = [2]uint32{}, [2]uint32{}
	s.table().pass(20 * time.Second) // two spans
	runs := h.runs.Load()
	s.restOf(a, b).count([]core.Result{{Allowed: true, Remaining: 1}, {Allowed: true, Remaining: 2}})
	s.quiet()
	if one.used != [2]uint32{3, 0} || two.used != [2]uint32{2, 0} {
		t.Errorf("used %v and %v", one.used, two.used)
	}
	if one.available() != 0 || two.available() != 2 || h.runs.Load() != runs+1 {
		t.Errorf("granted %d of 1 that remains and %d of 2, in %d calls", one.available(), two.available(), h.runs.Load()-runs)
	}
}

func TestWhatWasUsedIsOfTheSpanThatNowLiesIn(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	e.used[0] = 7
	s.table().pass(10 * time.Second)
	if s.restOf(c).count([]core.Result{{Allowed: true}}); e.used != [2]uint32{1, 7} {
		t.Errorf("used %v, want 1 in this span and 7 in the last", e.used)
	}
}

// Of these nothing counts, so that nothing is charged ahead for them.
func TestWhatCannotBeLeasedDoesNotCount(t *testing.T) {
	for why, change := range map[string]func(*core.Claim){
		"a peek":       func(c *core.Claim) { c.Peek = true },
		"a dry run":    func(c *core.Claim) { c.DryRun = true },
		"other limits": func(c *core.Claim) { c.Limits = core.MustParseLimits("99/d") },
		"twice":        func(*core.Claim) {},
	} {
		s, c := frozenStore(t), leasedFor("k", "100/d")
		e, claims := s.lend(t, c, 10), []core.Claim{c}
		if change(&claims[0]); why == "twice" {
			claims = append(claims, c)
		}
		if s.restOf(claims...).count(make([]core.Result, len(claims))); e.used[0] != 0 {
			t.Errorf("%s: used %v", why, e.used)
		}
	}
}

func TestAKeyIsLeasedOnceItIsAskedForAgain(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	table := s.table()
	shard, hash, key := table.placeOf(c)
	for i := range 3 {
		s.restOf(c).count([]core.Result{{Allowed: true}})
		if e := shard.find(hash, key); (e != nil) != (i > 0) || e != nil && e.used[0] != uint32(i) {
			t.Errorf("asked for %d times: %+v", i+1, e)
		}
	}
}

func TestLeast(t *testing.T) {
	for _, remaining := range [][]int{{3}, {3, 4, 5}, {4, 3, 5}, {5, 4, 3}} {
		var results []core.Result
		for _, n := range remaining {
			results = append(results, core.Result{Remaining: n})
		}
		if got := least(results); got != 3 {
			t.Errorf("the least of %v: %d", remaining, got)
		}
	}
}
