package redisx

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
)

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
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
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
