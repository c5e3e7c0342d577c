package redisx

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A grant gets as long as the longest Take has had.
func TestAGrantHasTheLongestDeadline(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	for _, row := range []struct{ hours, want time.Duration }{{0, 0}, {2, 2}, {5, 5}, {3, 5}, {0, 5}} {
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if row.hours > 0 {
			ctx, cancel = context.WithTimeout(ctx, row.hours*time.Hour)
		}
		if _, err := s.Take(ctx, []core.Claim{c}, nil); err != nil {
			t.Fatal(err)
		}
		cancel()
		if got := time.Duration(s.table().timeout.Load()); got.Round(time.Hour) != row.want*time.Hour {
			t.Errorf("with %d hours: a timeout of %v, want %d hours", row.hours, got, row.want)
		}
	}
}

func TestAnInvalidClaimEndsNoLease(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	c.Lease = time.Hour
	if _, err := s.Take(t.Context(), []core.Claim{leasedFor("k", "100/d"), c}, nil); !errors.Is(err, core.ErrInvalid) || e.available() != 10 {
		t.Errorf("%v, %d left", err, e.available())
	}
}

func TestATakeOfALeasedKeyTakesOnce(t *testing.T) {
	s, c := frozenStore(t), leasedFor("k", "100/d")
	e := s.lend(t, c, 10)
	if r, err := s.Take(t.Context(), []core.Claim{c}, nil); err != nil || len(r) != 1 || e.available() != 9 {
		t.Errorf("%+v, %v, %d left", r, err, e.available())
	}
}

func TestAFailureOfAColdKeyIsAnError(t *testing.T) {
	s, h := tapped(t)
	cut := errors.New("cut")
	h.next(func() error { return cut })
	if r, err := s.Take(t.Context(), []core.Claim{leasedFor("k", "100/d")}, nil); !errors.Is(err, cut) || len(r) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Neither a peek nor what is denied or cannot be leased makes the next request of a key its second.
func TestWhatIsNoFirstRequestOfAKey(t *testing.T) {
	for why, change := range map[string]func(*core.Claim){
		"a peek":    func(c *core.Claim) { c.Peek = true },
		"a denial":  func(c *core.Claim) { c.Cost = 101 },
		"a dry run": func(c *core.Claim) { c.DryRun = true },
	} {
		s, c := frozenStore(t), leasedFor("k", "100/d")
		first := c
		change(&first)
		for _, one := range []core.Claim{first, first, c} {
			if _, err := s.Take(t.Context(), []core.Claim{one}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.LeaseStats().Keys; n != 0 {
			t.Errorf("%s: %d keys are leased after the first request", why, n)
		}
	}
}

// While a request of a key without a lease is on its way, others may lease what it needs.
func TestAColdRequestGetsWhatOthersHaveLeasedMeanwhile(t *testing.T) {
	s, h := tapped(t)
	c := leasedFor("k", "20/d")
	c.Cost = 15
	h.next(func() error { s.lend(t, c, 10); return nil })
	if r, err := s.Take(t.Context(), []core.Claim{c}, nil); err != nil || !r[0].Allowed || r[0].Remaining != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A denial that no lease of this process explains is not asked for again.
func TestADenialIsOneCall(t *testing.T) {
	s, h := tapped(t)
	c := leasedFor("k", "20/d")
	c.Cost = 21
	for _, claims := range [][]core.Claim{{c}, {c, leasedFor("o", "20/d")}} {
		runs := h.runs.Load()
		if r, err := s.Take(t.Context(), claims, nil); err != nil || r[0].Allowed || h.runs.Load() != runs+1 {
			t.Errorf("%+v, %v, %d calls", r, err, h.runs.Load()-runs)
		}
	}
}

// What a call gives back is not lost if it is not sent.
func TestACallThatIsNotSentGivesBackLater(t *testing.T) {
	s, a, b := frozenStore(t), leasedFor("a", "100/d"), leasedFor("b", "100/d")
	s.lend(t, a, 10)
	e := s.lend(t, b, 10)
	a.Cost = 11
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Take(over, []core.Claim{a, b}, nil); err == nil || e.available() != 10 || s.table().toReturn() != 10 || len(s.table().unused) != 1 {
		t.Errorf("%v, %d left, to be given back: %+v", err, e.available(), s.table().unused)
	}
	s.table().sweep()
	if n := s.remains(t, a); n != 100 || s.LeaseStats().Returned != 10 {
		t.Errorf("%d remain, %+v", n, s.LeaseStats())
	}
}

func TestACallCountsWhatItUsesAndGivesBack(t *testing.T) {
	s, a, b := frozenStore(t), leasedFor("a", "100/d"), leasedFor("b", "100/d")
	one, two := s.lend(t, a, 10), s.lend(t, b, 6)
	a.Cost, b.Cost = 11, 7
	r, err := s.Take(t.Context(), []core.Claim{a, b}, nil)
	s.quiet()
	if err != nil || r[0].Remaining != 89 || r[1].Remaining != 93 || s.LeaseStats().Returned != 16 {
		t.Errorf("%+v, %v, %+v", r, err, s.LeaseStats())
	}
	if one.used[0] != 11 || two.used[0] != 7 {
		t.Errorf("used %v and %v", one.used, two.used)
	}
}
