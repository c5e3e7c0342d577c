package redisx_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// TestDeniedRequestMayWaitWhenItWasTold sends a thousand requests in three seconds, of which few may wait for one
// second, and checks what each of the others was told: the same request is admitted to wait at that instant, and not a
// microsecond earlier.
func TestDeniedRequestMayWaitWhenItWasTold(t *testing.T) {
	client := redistest.Start(t, redistest.KeepKeys...).Client(t)
	for _, limits := range []string{"10/s;burst=1", "10/s;burst=4, 200/m;burst=6", "7/1001ms;burst=2"} {
		flush(t, client)
		store := redisx.New(client, options)
		now := start
		store.SetClock(func() time.Time { return now })
		random := rand.New(rand.NewPCG(1, 2))
		c := core.Claim{Rule: "r", Key: "k", Limits: core.MustParseLimits(limits), MaxWait: time.Second}
		admitted, denied := 0, 0
		for range 1000 {
			now = now.Add(time.Duration(random.Int64N(6000)) * time.Microsecond)
			if random.IntN(300) == 0 {
				if err := store.Settle(t.Context(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Ban: 1100 * time.Millisecond}}); err != nil {
					t.Fatal(err)
				}
			}
			c.Cost, c.Peek = 1+random.IntN(c.Limits[0].Capacity()), false
			retry := retryAfter(take(t, store, c))
			if retry == 0 {
				admitted++
				continue
			}
			denied++
			c.Peek = true
			for _, early := range []time.Duration{time.Microsecond, 0} {
				now = now.Add(retry - early)
				if got := retryAfter(take(t, store, c)); got != early {
					t.Fatalf("%v: denied for %v, and %v before that for %v", limits, retry, early, got)
				}
				now = now.Add(early - retry)
			}
		}
		if admitted < 10 || denied < 900 {
			t.Errorf("%v: %d admitted, %d denied", limits, admitted, denied)
		}
	}
}

// retryAfter returns how long after a decision the same request is admitted, or 0 if it was admitted.
func retryAfter(results []core.Result) (retry time.Duration) {
	for _, r := range results {
		retry = max(retry, r.RetryAfter)
	}
	return retry
}

// A request that waits for the end of a ban is denied if the bucket cannot count its cost on top of the ban.
func TestLargeCostIsNotBookedBehindABan(t *testing.T) {
	s, _ := frozen(t)
	c := core.Claim{Rule: "r", Key: "k", Limits: []core.Limit{core.Every(1_000_000, 9000*time.Second)}, MaxWait: time.Hour}
	if err := s.Settle(t.Context(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Ban: 50 * time.Minute}}); err != nil {
		t.Fatal(err)
	}
	for cost, want := range map[int]bool{700_000: false, 600_000: true} {
		c.Cost, c.Peek = cost, true
		if r := take(t, s, c)[0]; r.Allowed != want {
			t.Errorf("cost %d: %+v, want allowed %v", cost, r, want)
		}
	}
}

// A refund made while the clock is behind takes effect after the bucket has followed the clock.
func TestBookingIsGivenBackAfterTheClockWentBack(t *testing.T) {
	s, server := frozen(t)
	c := core.Claim{Rule: "rule", Key: "k", Limits: []core.Limit{core.PerMinute(5)}, MaxWait: time.Second}
	take(t, s, c)
	at := take(t, s, c)[0].At
	server.SetTime(start.Add(-time.Hour))
	if err := s.Settle(t.Context(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: at, Cost: 1, MaxWait: c.MaxWait}}); err != nil {
		t.Fatal(err)
	}
	c.Peek = true
	if r := take(t, s, c)[0]; r.Remaining != 1 {
		t.Errorf("%d remain, want the one given back to a bucket that is full", r.Remaining)
	}
}

func TestGivingBackABookingRepairsCorruptState(t *testing.T) {
	s, server := frozen(t)
	c := core.Claim{Rule: "rule", Key: "k", Limits: []core.Limit{core.PerMinute(5)}, MaxWait: time.Second}
	at := take(t, s, c)[0].At
	server.HSet(pairKey, "s", state(ends, kindOf(c.Limits[0]), siblingOf(c.Limits[0]), 1<<54))
	if err := s.Settle(t.Context(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: at, Cost: 1, MaxWait: c.MaxWait}}); err != nil {
		t.Fatal(err)
	}
	c.Peek = true
	if r := take(t, s, c)[0]; r.Remaining != 1 || s.Repaired() != 1 {
		t.Errorf("%d remain and %d states were repaired, want a bucket that was just used up and got one back", r.Remaining, s.Repaired())
	}
}
