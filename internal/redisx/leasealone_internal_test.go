package redisx

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// emptyLease adds a lease of a key of which nothing is left, and that is not busy.
func emptyLease(t *testing.T, s *Store, key string) (core.Claim, *leaseEntry) {
	c := leasedFor(key, "1000/d")
	e := s.lend(t, c, 1)
	e.left = [2]uint32{}
	return c, e
}

// TestALoneRequestWaitsForItsGrant checks that a request of a key that is not busy is decided from a grant, in one call, unless
// grants come late.
func TestALoneRequestWaitsForItsGrant(t *testing.T) {
	for _, late := range []bool{false, true} {
		s, h := tapped(t)
		c, e := emptyLease(t, s, "k")
		e.late = late
		runs := h.runs.Load()
		p, _, ok := s.takeLease(s.table(), &c, waitAlways, nil)
		if s.quiet(); ok || (p.grant != nil) == late || (h.runs.Load() > runs) == late {
			t.Errorf("late: %v: decided: %v, waits: %v, %d calls", late, ok, p.grant != nil, h.runs.Load()-runs)
		}
		if !late && (e.available() != 2 || h.runs.Load() != runs+1) {
			t.Errorf("%d left of its grant, in %d calls, want 2 in one", e.available(), h.runs.Load()-runs)
		}
	}
}

// TestARequestOfSeveralKeysWaitsForNoGrant checks that the store decides it in one call, where each grant would be one more.
func TestARequestOfSeveralKeysWaitsForNoGrant(t *testing.T) {
	s, h := tapped(t)
	a, _ := emptyLease(t, s, "a")
	b, _ := emptyLease(t, s, "b")
	claims, runs := []core.Claim{a, b}, h.runs.Load()
	k := &leasedTake{store: s, table: s.table(), claims: claims, takes: make([]localTake, 2)}
	k.takeLocal(t.Context())
	if s.quiet(); len(k.rest) != 2 || h.runs.Load() != runs {
		t.Errorf("%d of 2 are left to the store, after %d calls", len(k.rest), h.runs.Load()-runs)
	}
}

// TestAKeyNearItsLimitIsNotLeased checks that no grant is asked for where half of what remains is nothing.
func TestAKeyNearItsLimitIsNotLeased(t *testing.T) {
	for limits, keys := range map[string]int{"2/d": 0, "3/d": 1} {
		s, h := tapped(t)
		c := leasedFor("k", limits)
		for range 2 {
			s.takeOne(t, c)
		}
		if s.quiet(); s.LeaseStats().Keys != keys || keys == 0 && h.runs.Load() != 2 {
			t.Errorf("%s: %d keys are leased after 2 requests, in %d calls", limits, s.LeaseStats().Keys, h.runs.Load())
		}
	}
}

// TestAKeyOverItsLimitRests checks that each request of a leased key whose limit is used up is one call that asks for no grant, and
// that the key is leased again after a pause without a denial.
func TestAKeyOverItsLimitRests(t *testing.T) {
	s, h := tapped(t)
	c := leasedFor("k", "20/d")
	e := s.lend(t, c, 10)
	c.Cost = 20
	s.take(t, c)
	c.Cost = 1
	for range 5 {
		runs := h.runs.Load()
		if s.take(t, c); h.runs.Load() != runs+1 || e.pause != pauseSpans || !e.rests() {
			t.Errorf("%d calls, a pause of %d", h.runs.Load()-runs, e.pause)
		}
		s.table().pass(10 * time.Second)
	}
	if err := s.Reset(t.Context(), []core.Pair{{Key: "k"}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.take(t, c)
		s.quiet()
	}
	if n := s.LeaseStats().Keys; n != 1 {
		t.Errorf("%d keys are leased once the limit has recovered", n)
	}
}

func (s *Store) take(t *testing.T, c core.Claim) {
	t.Helper()
	if _, err := s.Take(t.Context(), []core.Claim{c}, nil); err != nil {
		t.Fatal(err)
	}
}
