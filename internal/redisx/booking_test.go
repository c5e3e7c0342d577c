package redisx_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
	"pgregory.net/rapid"
)

// TestDeniedRequestMayWaitWhenItWasTold sends a thousand requests in three seconds, of which few may wait for one
// second, and checks what each of the others was told: the same request is admitted to wait at that instant, and not a
// microsecond earlier.
func TestDeniedRequestMayWaitWhenItWasTold(t *testing.T) {
	client := redistest.Start(t).Client(t)
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

// TestBookingsAgreeWithTheModel compares requests that wait, are given back and are banned at random with the model, in
// ticks of 1 µs, 1 ms and 1 s. Requests may name two rates. The clock may step back if nothing is given back: the store
// drops a state that is empty.
func TestBookingsAgreeWithTheModel(t *testing.T) {
	store, server := frozen(t)
	limits := [][]core.Limit{
		core.MustParseLimits("5/s"), core.MustParseLimits("1/s;burst=3"), core.MustParseLimits("10/3h"), core.MustParseLimits("1000000/d"),
		{core.Every(999_983, 3650*24*time.Hour-time.Millisecond)}, core.MustParseLimits("3/s;burst=1, 100/m;burst=2"),
		{core.Every(1_000_000, 9_007_199_254*time.Microsecond)}, // a full bucket is nearly as much as whole numbers can count
	}
	rapid.Check(t, func(t *rapid.T) {
		c := compare(store, server)
		tiers := [][]core.Limit{rapid.SampledFrom(limits).Draw(t, "limits")}
		l := tiers[0][0]
		if rapid.IntRange(0, 3).Draw(t, "tiers") == 0 {
			other := l
			other.Rate = max(1, l.Rate/2)
			tiers = append(tiers, []core.Limit{other})
		}
		each, steps := l.Period.Microseconds()/int64(l.Rate), rapid.IntRange(0, 3).Draw(t, "clock steps back") == 0
		some := func(name string, least, most int64) time.Duration {
			return time.Duration(rapid.Int64Range(least, most).Draw(t, name)) * time.Microsecond
		}
		for i := range rapid.IntRange(3, 40).Draw(t, "steps") {
			c.advance(some("wait", 0, 2*each))
			if steps && i > 0 && rapid.IntRange(0, 7).Draw(t, "back") == 0 {
				c.advance(-some("back", 0, 3*each))
			}
			var err error
			switch verb := rapid.IntRange(0, 19).Draw(t, "verb"); {
			case !steps && i > 0 && verb < 7:
				line := rapid.IntRange(max(0, i-5), i).Draw(t, "line")
				err = c.settle(c.takes[line])
				delete(c.takes, line)
			case i > 0 && verb < 9:
				err = c.settle([]core.Settlement{{Rule: "r", Key: "k", Ban: some("ban", 1, 5*each)}})
			default:
				one := core.Claim{Rule: "r", Key: "k", Limits: rapid.SampledFrom(tiers).Draw(t, "tier"), MaxWait: min(time.Hour, some("most", 1, 20*each))}
				one.Cost = rapid.SampledFrom([]int{1, 1, 2, l.Capacity()}).Draw(t, "cost")
				if i == 0 {
					one.Cost = l.Capacity()
				}
				one.Peek = rapid.IntRange(0, 9).Draw(t, "peek") == 0
				err = c.take(i, []core.Claim{one})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestTurnsWhenTheClockHasSteppedBack gives back each of four turns after the clock of the server has gone back.
func TestTurnsWhenTheClockHasSteppedBack(t *testing.T) {
	store, server := frozen(t)
	one := core.Claim{Rule: "r", Key: "k", Limits: core.MustParseLimits("5/s;burst=1"), MaxWait: time.Minute}
	for canceled := range 4 {
		c := compare(store, server)
		for i := range 4 {
			if err := c.take(i, []core.Claim{one}); err != nil {
				t.Fatal(err)
			}
		}
		c.advance(-time.Second)
		if err := errors.Join(c.settle(c.takes[canceled]), c.take(4, []core.Claim{one})); err != nil {
			t.Errorf("turn %d: %v", canceled, err)
		}
	}
}

// retryAfter returns how long after a decision the same request is admitted, or 0 if it is.
func retryAfter(results []core.Result) (retry time.Duration) {
	for _, r := range results {
		retry = max(retry, r.RetryAfter)
	}
	return retry
}
