package redisx

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// restOf returns a Take whose claims the store decides.
func (s *Store) restOf(claims ...core.Claim) *leasedTake {
	k := &leasedTake{store: s, table: s.table(), claims: claims, rest: claims, takes: make([]localTake, len(claims)), backs: make([]backs, len(claims))}
	for i := range claims {
		k.places = append(k.places, i)
	}
	return k
}

// A waitedFor is a context that calls f when something waits for its end for the first time.
type waitedFor struct {
	context.Context
	f func()
}

func (c *waitedFor) Done() <-chan struct{} {
	if f := c.f; f != nil {
		c.f = nil
		f()
	}
	return nil
}

// inFlight has a grant for e be in flight, and returns a context that ends it, with n requests, when it is waited for.
func (s *Store) inFlight(t *testing.T, e *leaseEntry, c core.Claim, n int64) *waitedFor {
	g := &grant{context.Background(), make(chan struct{})}
	e.ensureRare().grant = g
	return &waitedFor{context.Background(), func() {
		at, granted := s.ahead(t, c, n)
		now := s.table().now()
		e.credit(now, at, now+e.terms.length, granted)
		e.rare.grant = nil
		close(g.done)
	}}
}

// What is charged on other terms is given back before a call asks on the new ones, what is in flight too.
func TestAChangeOfTermsWaitsForAGrant(t *testing.T) {
	for _, limits := range []string{"200/d", "100/d, 300/h", "100/d;sliding-log"} {
		s, c := frozenStore(t), leasedFor("k", "100/d")
		e, other := s.lend(t, c, 10), leasedFor("k", limits)
		ctx := s.inFlight(t, e, c, 20)
		s.restOf(other).changeTerms(ctx)
		if ctx.f != nil || e.available() != 0 || e.terms.fit(&other) != leasable(&other) {
			t.Errorf("%s: waited: %v, %d left", limits, ctx.f == nil, e.available())
		}
		if n := s.remains(t, c); n != 100 {
			t.Errorf("%s: %d remain, want 100", limits, n)
		}
	}
}

// Terms that charge the same limits for another time need not wait.
func TestAnotherLengthOfALeaseIsAChangeOfTerms(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	e, other := s.lend(t, c, 10), c
	other.Lease = time.Second
	s.inFlight(t, e, c, 20)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if s.restOf(other).changeTerms(over); e.available() != 0 || !e.terms.fit(&other) || e.pause != pauseSpans {
		t.Errorf("%d left, terms of %v", e.available(), e.terms.length)
	}
}

// The call for such a claim gives back what is left of the lease by itself.
func TestAClaimWithoutALeaseChangesNoTerms(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	c.Lease = 0
	if s.restOf(c).changeTerms(context.Background()); e.available() != 10 {
		t.Errorf("%d left of 10", e.available())
	}
}

func TestAChangeOfTermsForgetsTheOtherLimits(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d, 200/h")
	e := s.lend(t, c, 10)
	e.ensureRare().others = make([]after, 1)
	c.Limits = core.MustParseLimits("100/d, 200/h, 300/h;fixed-window")
	if s.restOf(c).changeTerms(context.Background()); e.rare != nil {
		t.Errorf("kept %+v", e.rare)
	}
}

// A call gives back what is left of a lease, unless that was ended before: what has come in since then is for others.
func TestACallGivesBackWhatIsLeft(t *testing.T) {
	s, a, b := frozenStore(t), leasedFor("a", "100/d"), leasedFor("b", "100/d")
	one, two := s.lend(t, a, 10), s.lend(t, b, 5)
	b.Limits = core.MustParseLimits("99/d")
	k := s.restOf(a, b, leasedFor("none", "100/d"))
	k.takes[0].ended = true
	if k.collect(false); one.available() != 10 || k.unused() != 0 {
		t.Errorf("ended before: %d left, %d given back", one.available(), k.unused())
	}
	if k.collect(true); one.available() != 0 || k.unused() != 10 {
		t.Errorf("again: %d left, %d given back", one.available(), k.unused())
	}
	if two.available() != 5 {
		t.Errorf("%d left of a lease of other limits, want 5", two.available())
	}
	k = s.restOf(leasedFor("b", "100/d"))
	if k.collect(false); two.available() != 0 || k.unused() != 5 {
		t.Errorf("not ended: %d left, %d given back", two.available(), k.unused())
	}
}

// A denial may be due to what this process holds of the pair.
func TestADenialMayBeDueToALease(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	denied, admitted := core.Result{}, core.Result{Allowed: true}
	for why, row := range map[string]struct {
		change  func(*leaseEntry)
		results []core.Result
		ctx     context.Context
		want    bool
	}{
		"some left":           {func(*leaseEntry) {}, []core.Result{admitted, denied}, t.Context(), true},
		"admitted":            {func(*leaseEntry) {}, []core.Result{denied, admitted}, t.Context(), false},
		"nobody waits for it": {func(*leaseEntry) {}, []core.Result{admitted, denied}, done, false},
		"to be given back":    {func(e *leaseEntry) { e.end() }, []core.Result{denied, denied}, t.Context(), true},
		"none left":           {func(e *leaseEntry) { e.finish() }, []core.Result{denied, denied}, t.Context(), false},
		"a grant": {func(e *leaseEntry) {
			e.finish()
			e.ensureRare().grant = &grant{t.Context(), make(chan struct{})}
			close(e.rare.grant.done)
		}, []core.Result{denied, denied}, t.Context(), true},
	} {
		s, c := frozenStore(t), leasedFor("k", "100/d")
		row.change(s.lend(t, c, 10))
		if got := s.restOf(leasedFor("cold", "100/d"), c).holdsDenied(row.ctx, row.results); got != row.want {
			t.Errorf("%s: %v", why, got)
		}
	}
}

func TestADenialWaitsForAGrantInFlight(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	e.finish()
	ctx := s.inFlight(t, e, c, 7)
	if !s.restOf(c).holdsDenied(ctx, []core.Result{{}}) || e.available() != 7 {
		t.Errorf("%d left after a wait for 7", e.available())
	}
}
