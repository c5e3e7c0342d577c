package core_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestHoldsOfLongRequestsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(settler)
		l := withStore(s, []core.Rule{final("r", 5, core.Failures), perHour("plain", 5)})
		serve(t, l, func(_ *http.Request, g *core.Guard) {
			begun := time.Now()
			time.Sleep(20*time.Second - 1)
			s.want(t)
			for i := range 3 {
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if n := len(s.finals()); n != i+1 {
					t.Fatalf("renewed %d times after %v", n, time.Since(begun))
				}
				time.Sleep(20*time.Second - 1)
			}
			g.Settle(core.Outcome{Status: 200})
		})
		renewed := s.settled[2].At // as the store set it
		end := s.settled[3]
		if end.Renew || !end.At.Equal(renewed) || end.Final != 0 {
			t.Errorf("settled %+v, want the instant of the last renewal, %v", end, renewed)
		}
		time.Sleep(time.Hour)
		s.want(t, "renew r", "renew r", "renew r", "r 1→0")
	})
}

func TestEndWaitsForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &settler{takes: 10 * time.Millisecond}
		l := withStore(s, []core.Rule{final("r", 5, core.Failures)})
		serve(t, l, func(_ *http.Request, g *core.Guard) {
			time.Sleep(20*time.Second + 5*time.Millisecond) // a renewal is under way
			g.Settle(core.Outcome{Status: 200})
		})
		s.want(t, "renew r", "r 1→0")
		if !s.settled[1].At.Equal(s.settled[0].At) {
			t.Errorf("settled at %v, want the instant of the renewal, %v", s.settled[1].At, s.settled[0].At)
		}
		time.Sleep(time.Hour)
		s.want(t, "renew r", "r 1→0")
	})
}

func TestRenewalIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &settler{err: errRefused}
		l := withStore(s, []core.Rule{final("r", 5, core.Failures)})
		serve(t, l, func(_ *http.Request, g *core.Guard) {
			begun := time.Now()
			time.Sleep(21 * time.Second)
			s.mu.Lock()
			s.err = nil
			s.mu.Unlock()
			time.Sleep(20 * time.Second)
			synctest.Wait()
			s.want(t, "renew r", "renew r")
			if !s.settled[1].At.Equal(begun.Add(40 * time.Second)) {
				t.Errorf("renewed at %v", s.settled[1].At)
			}
			g.Settle(core.Outcome{Status: 200})
		})
	})
}

func TestRenewWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(settler)
		l := withStore(s, []core.Rule{final("r", 50, core.Failures)})
		d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Hold: true})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		time.Sleep(time.Second)
		s.err = errRefused
		wantError(t, l.Renew(t.Context(), d), core.ErrUnavailable, "connection refused")
		s.err = nil
		if err := l.Settle(t.Context(), d, "", 0); err != nil || !s.settled[1].At.Equal(begun) {
			t.Errorf("%v; settled at %v, want the instant of the hold, %v", err, s.settled[1].At, begun)
		}
	})
}

func TestJobsHoldRenewAndSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := new(settler), new(recorder)
		l := withStore(s, []core.Rule{final("r", 50, core.Failures), perHour("plain", 50)}, core.WithObserver(seen.observe))
		d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Cost: 7, Hold: true}, core.Claim{Rule: "plain", Key: "k", Cost: 3})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // nothing renews it by itself
		s.want(t)
		if err := l.Renew(t.Context(), d); err != nil || !s.settled[0].At.Equal(time.Now()) {
			t.Fatalf("%v; renewed %+v", err, s.settled)
		}
		if err := errors.Join(l.Settle(t.Context(), d, "r", 9), l.Settle(t.Context(), d, "r", 1), l.Renew(t.Context(), d)); err != nil {
			t.Fatal(err)
		}
		if err := l.Settle(t.Context(), d, "", 0); err != nil {
			t.Fatal(err)
		}
		s.want(t, "renew r", "r 7→9", "charged plain 3→0")
		if !s.settled[1].At.Equal(time.Now()) {
			t.Errorf("settled at %v, want the instant of the renewal", s.settled[1].At)
		}
		if len(seen.seen) != 2 || seen.seen[1].Outcome == nil || seen.seen[1].Outcome.Cost != 7 || seen.seen[1].Charged != 9 || seen.seen[1].Request != nil {
			t.Errorf("observers saw %+v, want the decision and the settlement of what was held", seen.seen)
		}
	})
}

func TestSettlementOfACostOfZeroIsOneOfOne(t *testing.T) {
	seen := new(recorder)
	l := withStore(new(settler), []core.Rule{perHour("r", 50)}, core.WithObserver(seen.observe))
	d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Hold: true})
	if err == nil {
		err = l.Settle(t.Context(), d, "r", 2)
	}
	if err != nil || len(seen.seen) != 2 || seen.seen[1].Outcome.Cost != 1 {
		t.Errorf("%v; observers saw %+v, want that 1 was held", err, seen.seen)
	}
}

func TestRenewOfWhatHoldsNothingCallsNoStore(t *testing.T) {
	s := new(faulty)
	l := withStore(s, []core.Rule{perHour("plain", 50), perHour("other", 50), final("r", 50, core.Failures)})
	one, err := l.Take(t.Context(), core.Claim{Rule: "plain", Key: "k"})
	two, twoErr := l.Take(t.Context(), core.Claim{Rule: "plain", Key: "k"}, core.Claim{Rule: "other", Key: "k"})
	held, heldErr := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Hold: true})
	if err := errors.Join(err, twoErr, heldErr, l.Settle(t.Context(), held, "", 0)); err != nil {
		t.Fatal(err)
	}
	before := s.calls.Load()
	if err := errors.Join(l.Renew(t.Context(), one), l.Renew(t.Context(), two), l.Renew(t.Context(), held)); err != nil {
		t.Error(err)
	}
	if n := s.calls.Load() - before; n != 0 {
		t.Errorf("%d calls of the store", n)
	}
}
