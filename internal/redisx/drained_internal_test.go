package redisx

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
)

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
