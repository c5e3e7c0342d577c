package redisx

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
)

// leasedJob returns a job that decides a claim, charges requests ahead for it and gives back others.
func (s *Store) leasedJob(t *testing.T, c core.Claim, want int64, b backs) *job {
	r, err := s.layout.newTake([]core.Claim{c})
	if err != nil {
		t.Fatal(err)
	}
	r.lease(0, want, b)
	return &s.split(r, anyKeys)[0]
}

// ahead charges n requests ahead without deciding any, and returns how many the server allowed.
func (s *Store) ahead(t *testing.T, c core.Claim, n int64) (at, granted int64) {
	t.Helper()
	j := s.leasedJob(t, c, n, backs{})
	j.request.free(0)
	j.prepare(nil)
	s.mustRun(t, j)
	return j.at, j.request.leases[0].granted
}

func (s *Store) mustRun(t *testing.T, jobs ...*job) {
	t.Helper()
	if err := s.run(context.Background(), jobs); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if err := j.read(); err != nil {
			t.Fatal(err)
		}
	}
}

// remains returns how many requests remain for the first limit of a claim.
func (s *Store) remains(t *testing.T, c core.Claim) int64 {
	t.Helper()
	c.Peek = true
	j := s.jobOf(t, c)
	s.mustRun(t, j)
	return j.usages[0].Remaining
}

// servers runs f over miniredis and over a Redis whose clocks stand still as far as limits per day can see.
func servers(t *testing.T, f func(*testing.T, *Store)) {
	t.Run("miniredis", func(t *testing.T) { f(t, frozenStore(t)) })
	t.Run("redis", func(t *testing.T) {
		f(t, New(redistest.Start(t).Client(t), Options{Prefix: "p"}))
	})
}

func TestGrantIsAtMostHalfOfWhatRemains(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		for _, row := range []struct {
			why, limits string
			used        int
			want        int64
			granted     int64
		}{
			{"what is wanted", "100/d", 0, 20, 20},
			{"half", "100/d", 0, 51, 50},
			{"half, rounded down", "100/d", 51, 51, 24},
			{"one of two", "100/d", 98, 51, 1},
			{"none of one", "100/d", 99, 51, 0},
			{"none of none", "100/d", 100, 51, 0},
			{"the least of all limits", "100/d, 40/d;fixed-window", 0, 51, 20},
			{"a window", "100/d;fixed-window", 51, 51, 24},
			{"a burst", "5/d;burst=30", 0, 51, 15},
			{"coarse ticks", "1000000/3650d", 999_990, 51, 5},
			{"a rate of 0", "0/d", 0, 51, 0},
		} {
			c := core.Claim{Key: row.why, Limits: core.MustParseLimits(row.limits), Cost: row.used}
			if row.used > 0 {
				s.mustRun(t, s.jobOf(t, c))
			}
			c.Cost = 0
			before := s.remains(t, c)
			_, granted := s.ahead(t, c, row.want)
			if after := s.remains(t, c); granted != row.granted || before-after != granted {
				t.Errorf("%s: granted %d of %d and charged %d, want %d", row.why, granted, before, before-after, row.granted)
			}
		}
	})
}

func TestGrantReportsWhatItLeaves(t *testing.T) {
	s := frozenStore(t)
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d, 90/h")}
	j := s.leasedJob(t, c, 30, backs{})
	j.request.free(0)
	j.prepare(nil)
	s.mustRun(t, j)
	if j.usages[0].Remaining != 70 || j.usages[1].Remaining != 60 || j.usages[0].retry != 0 || j.request.leases[0].granted != 30 {
		t.Errorf("got %+v, granted %d", j.usages, j.request.leases[0].granted)
	}
}

func TestNothingIsGrantedBesideABanOrAHold(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		held := core.Claim{Key: "held", Limits: core.MustParseLimits("100/d"), Hold: true, Cost: 90}
		s.mustRun(t, s.jobOf(t, held))
		held.Hold = false
		if _, granted := s.ahead(t, held, 30); granted != 5 {
			t.Errorf("granted %d of 10 that are not held, want 5", granted)
		}
		banned := core.Claim{Key: "banned", Limits: held.Limits}
		if err := s.Settle(context.Background(), []core.Settlement{{Key: "banned", Ban: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		if _, granted := s.ahead(t, banned, 30); granted != 0 {
			t.Errorf("granted %d of a banned pair, want 0", granted)
		}
	})
}

// A process is never denied because of what it gives back in the same call.
func TestWhatIsGivenBackCountsForTheRequestThatGivesItBack(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		for _, limits := range []string{"100/d", "100/d;fixed-window", "100/d, 100/d;fixed-window"} {
			c := core.Claim{Key: limits, Limits: core.MustParseLimits(limits)}
			at1, _ := s.ahead(t, c, 50)
			at2, _ := s.ahead(t, c, 25)
			b := backs{{at1, 10}, {at2, 5}}
			c.Cost = 41
			denied := s.leasedJob(t, c, 0, b)
			s.mustRun(t, denied)
			if denied.admitted() || denied.usages[0].Remaining != 40 {
				t.Errorf("%s: 41 of 25 and 15 given back: %+v, want a denial and 40 remaining", limits, denied.usages)
			}
			c.Cost = 40
			b = backs{{at1, 0}, {at2, 0}}
			admitted := s.leasedJob(t, c, 0, b)
			s.mustRun(t, admitted)
			if !admitted.admitted() || admitted.usages[0].Remaining != 0 {
				t.Errorf("%s: 40 of 40: %+v, want none remaining", limits, admitted.usages)
			}
		}
	})
}

func TestWhatWasChargedBeforeAResetIsNotGivenBack(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d")}
		at, _ := s.ahead(t, c, 50)
		s.Shift(time.Millisecond)
		if err := s.Reset(context.Background(), []core.Pair{{Key: c.Key}}); err != nil {
			t.Fatal(err)
		}
		s.Shift(time.Millisecond)
		c.Cost = 60
		s.mustRun(t, s.jobOf(t, c))
		c.Cost = 1
		s.mustRun(t, s.leasedJob(t, c, 0, backs{{at, 50}}))
		if n := s.remains(t, c); n != 39 {
			t.Errorf("%d remain of 100 after a reset and 61 requests, want 39", n)
		}
	})
}
