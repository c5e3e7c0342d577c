package redisx

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
)

// A plain leased request leads to what it leads to if the same is asked in company of a peek, which is not plain.
func TestPlainLeasesAreDecidedLikeOthers(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	plain, other := New(client, Options{Prefix: "p"}), New(client, Options{Prefix: "o"})
	peek := core.Claim{Key: "x", Limits: core.MustParseLimits("10/m"), Peek: true}
	rng := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1_800_000_000, 0)
	var charged []int64
	for i := range 2250 {
		if rng.IntN(3) > 0 {
			now = now.Add(time.Duration(rng.IntN(800)) * time.Millisecond)
		}
		server.SetTime(now)
		c := core.Claim{Key: fmt.Sprint(i/40, rng.IntN(2)), Limits: core.MustParseLimits([]string{"50/m", "50/m, 70/h", "90/s"}[i/750]), Cost: 1 + rng.IntN(3)*rng.IntN(20)}
		var b backs
		for n := range b {
			if len(charged) > 0 && rng.IntN(2) == 0 {
				b[n] = back{charged[max(0, len(charged)-1-rng.IntN(6))] - int64(rng.IntN(2)*rng.IntN(3)), int64(1 + rng.IntN(8))}
			}
		}
		want, free := int64(rng.IntN(2)*rng.IntN(30)), rng.IntN(2) == 0
		if rng.IntN(40) == 0 {
			for _, s := range []*Store{plain, other} {
				if err := s.Reset(context.Background(), []core.Pair{{Rule: c.Rule, Key: c.Key}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if rng.IntN(3) == 0 {
			want, b, free = -1, backs{}, false
		}
		one, two := leasedPair(t, plain, want, b, free, c), leasedPair(t, other, want, b, free, c, peek)
		for n := range c.Limits {
			if one.usages[n] != two.usages[n] {
				t.Fatalf("step %d, limit %d: %+v, in company %+v", i, n, one.usages[n], two.usages[n])
			}
		}
		if !slices.Equal(one.request.leases, two.request.leases) || one.at != two.at {
			t.Fatalf("step %d: %+v, in company %+v", i, one.request.leases, two.request.leases)
		}
		charged = append(charged, one.at)
	}
}

// leasedPair decides claims, of which the first is leased, unless want is negative, and perhaps free.
func leasedPair(t *testing.T, s *Store, want int64, b backs, free bool, claims ...core.Claim) *job {
	r, err := s.layout.newTake(claims)
	if err != nil {
		t.Fatal(err)
	}
	if free {
		r.free(0)
	}
	if want >= 0 {
		r.lease(0, want, b)
	}
	j := &s.split(r, anyKeys)[0]
	s.mustRun(t, j)
	return j
}

// A refund of what has drained returns nothing, and changes nothing for the next one.
func TestARefundOfWhatHasDrainedChangesNothing(t *testing.T) {
	for _, company := range [][]core.Claim{nil, {{Key: "x", Limits: core.MustParseLimits("10/m"), Peek: true}}} {
		server := miniredis.RunT(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
		t.Cleanup(func() { client.Close() })
		s, c := New(client, Options{Prefix: "p"}), core.Claim{Key: "k", Limits: core.MustParseLimits("60/m")}
		at := func(second, cost int, b backs) *job {
			server.SetTime(time.Unix(1_800_000_000+int64(second), 0))
			c.Cost = cost
			return leasedPair(t, s, 0, b, cost == 0, append([]core.Claim{c}, company...)...)
		}
		first := at(0, 1, backs{}).at
		busy := at(10, 5, backs{}).at
		at(11, 5, backs{})
		if j := at(14, 0, backs{{first, 1}, {busy, 2}}); j.usages[0].Remaining != 55 {
			t.Errorf("%d remain, want 55", j.usages[0].Remaining)
		}
	}
}

// A bucket that drains 3 requests per second has a third of a microsecond left of one after 333,333 µs.
func TestABucketIsEmptyOnceAllHasDrained(t *testing.T) {
	for after, reset := range map[time.Duration]int64{333_333: 1_000_001, 333_334: 1_000_000} {
		server := miniredis.RunT(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
		t.Cleanup(func() { client.Close() })
		s, c := New(client, Options{Prefix: "p"}), core.Claim{Key: "k", Limits: core.MustParseLimits("3/s;burst=9"), Cost: 1}
		begun := time.Unix(1_800_000_000, 0)
		server.SetTime(begun)
		leasedPair(t, s, 0, backs{}, false, c)
		server.SetTime(begun.Add(after * time.Microsecond))
		c.Cost = 3
		if j := leasedPair(t, s, 0, backs{}, false, c); j.usages[0].Reset != reset {
			t.Errorf("after %d µs a cost of 3 drains in %d µs, want %d", after, j.usages[0].Reset, reset)
		}
	}
}
