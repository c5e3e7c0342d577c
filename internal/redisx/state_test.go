package redisx_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// start is the beginning of a minute, and of an hour.
var start = time.Unix(1_800_000_000, 0)

// frozen returns a store on a server whose clock is stopped at start.
func frozen(t *testing.T) (*redisx.Store, *miniredis.Miniredis) {
	server := miniredis.RunT(t)
	server.SetTime(start)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	return redisx.New(client, options), server
}

func TestFullLogIsNotRepaired(t *testing.T) {
	s, server := frozen(t)
	c := claimOf("k", core.PerMinute(1000).Using(core.SlidingLog))
	grant(t, s, c, 9000)
	c.Cost = 10_000
	take(t, s, c)
	server.SetTime(start.Add(time.Second))
	if r := take(t, s, c)[0]; r.Allowed || r.Remaining != 0 || r.ResetAfter != 59*time.Second || s.Repaired() != 0 {
		t.Errorf("%+v, %d states repaired", r, s.Repaired())
	}
}

func TestRefundAtRateZeroChangesNothing(t *testing.T) {
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

// A bucket whose level is exactly one request has not been empty since the first one, so that one can be given back.
func TestFirstRequestIsRefundedWhileOneRequestIsLeft(t *testing.T) {
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

// What a hold that ends is charged finds the bucket drained until then, also for the part of a tick that has passed. The ticks of
// this bucket are seconds.
func TestHoldThatEndsLosesNoPartOfATick(t *testing.T) {
	s, server := frozen(t)
	server.SetTime(start.Add(500 * time.Millisecond))
	limit := core.Every(999_983, 3650*24*time.Hour)
	held, charged := claimOf("held", limit), claimOf("charged", limit)
	take(t, s, held)
	held.Hold, charged.Cost = true, 2
	take(t, s, held, charged)
	server.SetTime(start.Add(67 * time.Second)) // one after the hold has ended
	held.Hold, held.Peek, charged.Peek = false, true, true
	if r := take(t, s, held, charged); r[0].ResetAfter != r[1].ResetAfter {
		t.Errorf("full after %v with a hold that has ended, and after %v if all was charged at first", r[0].ResetAfter, r[1].ResetAfter)
	}
}

// Nothing was charged since, because a denied request of another rate charges nothing: all is given back.
func TestRefundLongAfterIsTheSameInBothStores(t *testing.T) {
	s, server := frozen(t)
	now := start
	memory := &core.MemoryStore{Now: func() time.Time { return now }}
	slow, fast := claimOf("k", core.PerDay(1).WithBurst(5)), claimOf("k", core.PerDay(10_007))
	denied := claimOf("other", core.PerDay(0))
	stores := []core.Store{s, memory}
	both := func(after time.Duration, claims ...core.Claim) (remaining [2]int) {
		now = now.Add(after)
		server.SetTime(now)
		for i, store := range stores {
			results, err := store.Take(context.Background(), claims, nil)
			if err != nil {
				t.Fatal(err)
			}
			remaining[i] = results[0].Remaining
		}
		return remaining
	}
	both(0, slow)
	both(time.Millisecond, slow)
	charged := now
	both(24*time.Hour, fast, denied)
	for _, store := range stores {
		if err := store.Settle(context.Background(), settledAt(charged, slow)); err != nil {
			t.Fatal(err)
		}
	}
	if got := both(0, fast); got != [2]int{10_006, 10_006} {
		t.Errorf("%d remain in Redis and in memory, want 10006 in both", got)
	}
}

// Holds end when their key is next asked for, and between their ends the bucket drains at the slowest rate that is named then. A
// settlement that changes nothing does not ask.
func TestSettlementThatChangesNothingEndsNoHold(t *testing.T) {
	held, slower := claimOf("k", core.PerMinute(7)), claimOf("k", core.PerMinute(5))
	held.Hold = true
	settlement := settledAt(start, claimOf("k", core.PerMinute(9).Using(core.FixedWindow)))
	settlement[0].Cost, settlement[0].Final = 1, 1
	s, server := frozen(t)
	now := start
	memory := &core.MemoryStore{Now: func() time.Time { return now }}
	for name, store := range map[string]core.Store{"Redis": s, "memory": memory} {
		var left [2]time.Duration
		decide := func(c core.Claim) core.Result {
			results, err := store.Take(context.Background(), []core.Claim{c}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return results[0]
		}
		for i, key := range []string{"settled", "not settled"} {
			at := func(after time.Duration) {
				now = start.Add(time.Duration(i)*time.Hour + after)
				server.SetTime(now)
			}
			held.Key, slower.Key, settlement[0].Key = key, key, key
			at(0)
			decide(held)
			at(6 * time.Second)
			decide(held)
			if at(75 * time.Second); i == 0 {
				if err := store.Settle(context.Background(), settlement); err != nil {
					t.Fatal(err)
				}
			}
			at(76 * time.Second)
			left[i] = decide(slower).ResetAfter
		}
		if left[0] != left[1] {
			t.Errorf("%s: %v until all is available after a settlement that changes nothing, %v without it", name, left[0], left[1])
		}
	}
}

// The level of an empty bucket of coarse ticks says nothing about what is held.
func TestHoldsFillABucketOfCoarseTicks(t *testing.T) {
	for _, l := range core.MustParseLimits("30/3650d, 100000/30d, 1000/365d") {
		s, _ := frozen(t)
		memory := &core.MemoryStore{Now: func() time.Time { return start }}
		for name, store := range map[string]core.Store{"Redis": s, "memory": memory} {
			c := claimOf("k", l)
			c.Hold, c.Cost = true, l.Capacity()
			for i := range 3 {
				r, err := store.Take(context.Background(), []core.Claim{c}, nil)
				if err != nil || r[0].Allowed != (i == 0) {
					t.Errorf("%s: request %d, each for all of %v: %+v, %v", name, i+1, l, r, err)
				}
			}
		}
	}
}

// The server keeps the plans of requests. A settlement of a key that also has the state of another tier leaves nothing behind that changes
// the settlements of other keys: here, a refund of the last window gives nothing back to the current one.
func TestSettlementLeavesNothingBehind(t *testing.T) {
	s := redisx.New(redistest.Start(t).Client(t), options)
	s.SetClock(func() time.Time { return start })
	day := []core.Limit{core.PerMinute(9).Using(core.FixedWindow), core.PerHour(50).Using(core.SlidingWindow)}
	other := claimOf("other", day[0], core.PerHour(40).Using(core.SlidingWindow))
	other.Limits[1].Buckets = 2
	first, c := claimOf("other", day...), claimOf("k", day...)
	c.Cost = 3
	take(t, s, other)
	take(t, s, first)
	take(t, s, c)
	more := settledAt(start, first)
	more[0].Final = 4
	s.Shift(time.Minute)
	take(t, s, c)
	for _, some := range [][]core.Settlement{more, settledAt(start, c)} {
		if err := s.Settle(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
	if r := take(t, s, claimOf("k", day...)); r[0].Remaining != 5 || r[1].Remaining != 46 {
		t.Errorf("%d remain of the window and %d of the sliding window, want 5 and 46", r[0].Remaining, r[1].Remaining)
	}
}
