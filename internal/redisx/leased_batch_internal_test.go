package redisx

import (
	"testing"

	"github.com/spillgate/spillgate/core"
)

func TestEachClaimOfARequestHasALeaseOfItsOwn(t *testing.T) {
	for _, limits := range []string{"100/d", "100/d;fixed-window"} {
		checkLeasesOfARequest(t, limits)
	}
}

func checkLeasesOfARequest(t *testing.T, limits string) {
	s, one := frozenStore(t), core.MustParseLimits(limits)
	claims := []core.Claim{
		{Key: "a", Limits: core.MustParseLimits(limits + ", 90/h")}, {Key: "other", Limits: one},
		{Key: "b", Limits: core.MustParseLimits(limits + ", 80/h")}, {Key: "rest", Limits: one},
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
	for _, limits := range []string{"100/d", "100/d;fixed-window"} {
		checkSharedRun(t, frozenStore(t), limits)
	}
}

func checkSharedRun(t *testing.T, s *Store, limits string) {
	of := func(key string) core.Claim { return core.Claim{Key: key, Limits: core.MustParseLimits(limits)} }
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

// A denied leased request leaves those behind it in the run their replies.
func TestADeniedLeaseSharesARunWithOthers(t *testing.T) {
	for _, limits := range []string{"10/d", "10/d;fixed-window", "10/d, 90/h"} {
		s := frozenStore(t)
		of := func(key string, cost int) core.Claim {
			return core.Claim{Key: key, Limits: core.MustParseLimits(limits), Cost: cost}
		}
		s.mustRun(t, s.jobOf(t, of("a", 10)))
		jobs := []*job{s.leasedJob(t, of("a", 1), 5, backs{}), s.leasedJob(t, of("b", 3), 2, backs{}), s.leasedJob(t, of("c", 4), 2, backs{})}
		s.mustRun(t, append([]*job(nil), jobs...)...)
		for i, want := range []struct{ remaining, granted int64 }{{0, 0}, {5, 2}, {4, 2}} {
			if j := jobs[i]; j.usages[0].Remaining != want.remaining || j.request.leases[0].granted != want.granted || j.admitted() != (i > 0) {
				t.Errorf("%s: request %d: %+v, granted %d", limits, i+1, j.usages[0], j.request.leases[0].granted)
			}
		}
	}
}

// What is charged ahead is at most half of what all claims of a request have left, if two are of one pair.
func TestAGrantIsOfWhatTheWholeRequestLeaves(t *testing.T) {
	s := frozenStore(t)
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d"), Cost: 10}
	r, err := s.layout.newTake([]core.Claim{c, c})
	if err != nil {
		t.Fatal(err)
	}
	r.lease(0, 99, backs{})
	s.mustRun(t, &s.split(r, anyKeys)[0])
	if r.leases[0].granted != 40 || s.remains(t, c) != 40 {
		t.Errorf("granted %d of 80, and %d remain", r.leases[0].granted, s.remains(t, c))
	}
}
