package redisx_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redisx"
)

// start is the beginning of a minute, and of an hour.
var start = time.Unix(1_800_000_000, 0)

// frozen returns a store on a server whose clock stands at start.
func frozen(t *testing.T) (*redisx.Store, *miniredis.Miniredis) {
	server := miniredis.RunT(t)
	server.SetTime(start)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	return redisx.New(client, options), server
}

// A string outlives its states by a second: see slack in lua/pair.lua.
func TestExpiriesAreExact(t *testing.T) {
	for _, row := range []struct {
		limit string
		cost  int
		want  time.Duration
	}{
		{"10/m", 5, 30 * time.Second},
		{"7/1000001us", 7, 1001 * time.Millisecond},
		{"3/3001us", 1, 2 * time.Millisecond}, // a third of a microsecond after the first
		{"3/3001us, 100/1ms", 1, 2 * time.Millisecond},
		{"1/1000001us;fixed-window", 1, 0}, // until the window ends
		{"10/m;fixed-window", 1, time.Minute},
		{"10/m;sliding-window", 1, 66 * time.Second},
		{"10/7000001us;sliding-log", 1, 7001 * time.Millisecond},
		{"10/m;sliding-log", 10, time.Minute},
	} {
		s, server := frozen(t)
		c := claimOf("k", core.MustParseLimits(row.limit)...)
		c.Cost = row.cost
		r := take(t, s, c)[0]
		if row.want == 0 {
			row.want = r.ResetAfter.Truncate(time.Millisecond) + time.Millisecond
		}
		row.want += time.Second
		key := server.Keys()[0]
		got := server.TTL(key)
		if got != row.want {
			t.Errorf("%s: expires in %v, want %v", row.limit, got, row.want)
		}
		latest := ""
		for _, l := range c.Limits {
			latest = max(latest, stored(server, "k", l)[:word])
		}
		if latest != words(uint64(start.Add(got).UnixMilli())) {
			t.Errorf("%s: says %x of when it expires", row.limit, latest)
		}
	}
}

func TestAFullLogIsNoCorruptOne(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.PerMinute(10_000).Using(core.SlidingLog))
	c.Cost = 10_000
	take(t, s, c)
	server.SetTime(start.Add(time.Second))
	if r := take(t, s, c)[0]; r.Allowed || r.RetryAfter != 59*time.Second || s.Repaired() != 0 {
		t.Errorf("%+v, %d states repaired", r, s.Repaired())
	}
}

func TestARefundOfRateZeroLeavesWhatWasUsed(t *testing.T) {
	for i, l := range everyAlgorithm(5, time.Minute) {
		s, _ := frozen(t)
		c := claimOf("k", l)
		take(t, s, c)
		zero := claimOf("k", everyAlgorithm(0, time.Minute)[i])
		if err := s.Settle(context.Background(), settledAt(start, zero)); err != nil {
			t.Fatal(err)
		}
		if r := take(t, s, c)[0]; r.Remaining != 3 {
			t.Errorf("%v: %d remaining, want 3", l, r.Remaining)
		}
	}
}

// Ticks of a second leave time to be counted later; the expiry counts it.
func TestABucketExpiresWhenItIsEmpty(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.Every(999_983, 3650*24*time.Hour))
	take(t, s, c)
	server.SetTime(start.Add(1500 * time.Millisecond))
	r := take(t, s, c)[0]
	if got, want := server.TTL(pairKey), r.ResetAfter; got < want || got > want+1002*time.Millisecond {
		t.Errorf("expires in %v, is empty in %v", got, want)
	}
}

// A bucket that holds exactly one request has not been empty since the first, so that one can be given back.
func TestExactlyOneRequestIsNotEmpty(t *testing.T) {
	s, server := frozen(t)
	ctx := context.Background()
	c := claimOf("k", core.PerSecond(5))
	for range 3 {
		take(t, s, c)
	}
	server.SetTime(start.Add(400 * time.Millisecond))
	if r := take(t, s, c)[0]; r.Remaining != 3 {
		t.Fatalf("%d remaining, want 3", r.Remaining)
	}
	if err := s.Settle(ctx, settledAt(start, c)); err != nil {
		t.Fatal(err)
	}
	c.Peek = true
	if r := take(t, s, c)[0]; r.Remaining != 4 {
		t.Errorf("%d remaining after a refund, want 4", r.Remaining)
	}
}
