package redisx_test

import (
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/testpass"
	"pgregory.net/rapid"
)

// heldLimits lists the sets of limits that the tests of holds draw from. Some have bans, some limit requests in flight, some
// differ only in their rates, and each algorithm has one.
var heldLimits = append(texts(everyAlgorithm(8, time.Minute)), []string{
	"5/m", "5/10s;ban=1m", "1000000/d;ban=3h", "30/3650d", "9/m;fixed-window", "9/m;sliding-window, 3 at once", "9/m;sliding-log, 5/m", "2 at once",
	"7/m", "20/s, 100/m;ban=10m", "5/month;tz=Europe/Berlin;from=31, 3/day;tz=America/Havana", "9/week;calendar", "4/day;calendar, 9/year",
}...)

func texts(limits []core.Limit) (all []string) {
	for _, l := range limits {
		all = append(all, l.String())
	}
	return all
}

// TestHoldsAgreeWithTheModel mixes takes, holds, settlements at other costs, renewals, expiries, bans, grants and resets.
func TestHoldsAgreeWithTheModel(t *testing.T) {
	testpass.Thorough(t)
	store, server := frozen(t)
	rapid.Check(t, func(t *rapid.T) {
		c := compare(store, server)
		for i := range rapid.IntRange(1, 25).Draw(t, "steps") {
			wait := rapid.SampledFrom([]time.Duration{0, 0, time.Second, 12 * time.Second, 59_999_999 * time.Microsecond, 66 * time.Second, 10 * time.Minute}).Draw(t, "wait")
			if rapid.IntRange(0, 3).Draw(t, "window") == 0 && len(c.last) > 0 { // to the turn of a window, or nearly
				wait = max(0, min(c.last[0].RefillAfter, 365*24*time.Hour)-time.Duration(rapid.IntRange(0, 3).Draw(t, "before"))*time.Microsecond)
			}
			c.advance(wait + time.Duration(rapid.IntRange(1, 3).Draw(t, "µs"))*time.Microsecond)
			if err := playHold(t, c, i); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
	})
}

func playHold(t *rapid.T, c *comparison, line int) error {
	claims := drawHeld(t)
	switch verb := rapid.SampledFrom([]string{"take", "take", "take", "take", "settle", "settle", "renew", "ban", "grant", "grant", "reset"}).Draw(t, "verb"); verb {
	case "take":
		return c.take(line, claims)
	case "reset":
		return c.reset(claims)
	case "grant":
		n := rapid.SampledFrom([]int{1, 1, 3, 50, -1, -2, 1_000_000_000, -1_000_000_000}).Draw(t, "requests")
		return c.settle([]core.Settlement{{Rule: claims[0].Rule, Key: claims[0].Key, Limits: claims[0].Limits, Grant: n}})
	case "ban":
		return c.settle([]core.Settlement{{Rule: claims[0].Rule, Key: claims[0].Key, Ban: time.Minute}})
	default:
		of := rapid.IntRange(0, line).Draw(t, "line")
		held := c.takes[of]
		for i := range held {
			held[i].Renew = verb == "renew" && held[i].Held
			held[i].Final = rapid.SampledFrom([]int{0, 0, 1, 2, 5, 20}).Draw(t, "final")
		}
		if verb == "settle" {
			delete(c.takes, of)
		}
		return c.settle(held)
	}
}

func drawHeld(t *rapid.T) (claims []core.Claim) {
	for range rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "claims") {
		c := core.Claim{Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), Cost: rapid.SampledFrom([]int{1, 1, 2, 5, 30}).Draw(t, "cost")}
		c.Limits = core.MustParseLimits(rapid.SampledFrom(heldLimits).Draw(t, "limits"))
		c.Hold = rapid.IntRange(0, 2).Draw(t, "hold") > 0
		for _, l := range c.Limits {
			c.Hold = c.Hold || l.Algorithm == core.InFlight
		}
		c.Peek, c.DryRun = rapid.IntRange(0, 7).Draw(t, "peek") == 0, rapid.IntRange(0, 7).Draw(t, "dry") == 0
		if canWait(c) && rapid.Bool().Draw(t, "waits") { // also for the end of a ban of a minute
			c.MaxWait = rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 2 * time.Minute, time.Hour}).Draw(t, "most")
		}
		claims = append(claims, c)
	}
	return claims
}

// TestHoldThatEndsAfterAReset checks that a reset keeps what a hold, when it ends, is charged to, though the next
// request does not name it.
func TestHoldThatEndsAfterAReset(t *testing.T) {
	store, server := frozen(t)
	for _, limits := range heldLimits {
		c := compare(store, server)
		hold := []core.Claim{{Key: "a", Limits: core.MustParseLimits(limits), Cost: 1, Hold: true}}
		other := []core.Claim{{Key: "a", Limits: core.MustParseLimits("50/2h"), Cost: 1}}
		rest := []core.Claim{{Key: "a", Limits: hold[0].Limits, Cost: 1, Peek: true}}
		if err := errors.Join(c.take(0, hold), c.reset(hold)); err != nil {
			t.Errorf("%s: %v", limits, err)
		}
		c.advance(70 * time.Second)
		if err := errors.Join(c.take(1, other), c.take(2, rest)); err != nil {
			t.Errorf("%s: %v", limits, err)
		}
	}
}
