package redisx

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
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
	if err := s.run(context.Background(), &takeScript, jobs); err != nil {
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

func TestAGrantIsAtMostHalfOfWhatRemains(t *testing.T) {
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

func TestAGrantReportsWhatItLeaves(t *testing.T) {
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
		banned := core.Claim{Key: "banned", Limits: held.Limits, Ban: time.Hour}
		if err := s.Settle(context.Background(), []core.Claim{banned}); err != nil {
			t.Fatal(err)
		}
		if _, granted := s.ahead(t, banned, 30); granted != 0 {
			t.Errorf("granted %d of a banned pair, want 0", granted)
		}
	})
}

// What a process gives back in its call does not stand in the way of the request of that call.
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
		if err := s.Reset(context.Background(), []core.Claim{c}); err != nil {
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

func TestEachClaimOfARequestHasALeaseOfItsOwn(t *testing.T) {
	s := frozenStore(t)
	claims := []core.Claim{
		{Key: "a", Limits: core.MustParseLimits("100/d, 90/h")}, {Key: "other", Limits: core.MustParseLimits("100/d")},
		{Key: "b", Limits: core.MustParseLimits("100/d, 80/h")}, {Key: "rest", Limits: core.MustParseLimits("100/d")},
	}
	r, err := s.layout.newTake(claims)
	if err != nil {
		t.Fatal(err)
	}
	r.lease(0, 10, backs{})
	r.lease(2, 20, backs{})
	s.mustRun(t, &s.split(r, anyKeys)[0])
	if r.leases[0].granted != 10 || r.leases[1].granted != 20 {
		t.Errorf("granted %+v", r.leases)
	}
	for i, want := range []int64{89, 99, 79, 99} {
		if got := s.remains(t, claims[i]); got != want {
			t.Errorf("%d remain for claim %d, want %d", got, i+1, want)
		}
	}
	r, _ = s.layout.newTake(claims)
	r.lease(0, 0, backs{{s.now(t), 4}})
	r.lease(2, 0, backs{{s.now(t), 6}})
	s.mustRun(t, &s.split(r, anyKeys)[0])
	for i, want := range []int64{92, 98, 84, 98} {
		if got := s.remains(t, claims[i]); got != want {
			t.Errorf("%d remain for claim %d after a return, want %d", got, i+1, want)
		}
	}
}

// now returns the instant of the server.
func (s *Store) now(t *testing.T) int64 {
	j := s.jobOf(t, core.Claim{Key: "clock", Limits: core.MustParseLimits("1/d")})
	s.mustRun(t, j)
	return j.at
}

// Leased and other requests of one run are decided in turn, each with its own words.
func TestLeasedRequestsShareARunWithOthers(t *testing.T) {
	server := miniredis.RunT(t)
	server.SetTime(time.Unix(1_800_000_000, 0))
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	s := New(client, Options{Prefix: "p"})
	of := func(key string) core.Claim { return core.Claim{Key: key, Limits: core.MustParseLimits("100/d")} }
	jobs := []*job{
		s.jobOf(t, of("a")), s.leasedJob(t, of("a"), 10, backs{}), s.leasedJob(t, of("b"), 20, backs{}),
		s.jobOf(t, of("b")), s.leasedJob(t, of("a"), 30, backs{}),
	}
	all := append([]*job(nil), jobs...)
	s.mustRun(t, jobs...)
	for i, want := range []int64{10, 20, 30} {
		if got := all[[]int{1, 2, 4}[i]].request.leases[0].granted; got != want {
			t.Errorf("grant %d: %d, want %d", i+1, got, want)
		}
	}
	if a, b := s.remains(t, of("a")), s.remains(t, of("b")); a != 100-3-40 || b != 100-2-20 {
		t.Errorf("%d and %d remain", a, b)
	}
}

func TestBacksKeepTwoInstants(t *testing.T) {
	var b backs
	for _, row := range []struct {
		at, n int64
		want  backs
	}{
		{30, 5, backs{{30, 5}}},
		{30, 2, backs{{30, 7}}},
		{20, 0, backs{{30, 7}}},
		{20, 1, backs{{30, 7}, {20, 1}}},
		{20, 2, backs{{30, 7}, {20, 3}}},
		{40, 4, backs{{20, 10}, {40, 4}}},
		{30, 6, backs{{20, 16}, {40, 4}}},
		{10, 1, backs{{10, 17}, {40, 4}}},
	} {
		if b.addAll(backs{{row.at, row.n}}); b != row.want {
			t.Errorf("with %d of %d: got %v, want %v", row.n, row.at, b, row.want)
		}
	}
	if b.sum() != 21 {
		t.Errorf("a sum of %d, want 21", b.sum())
	}
}
