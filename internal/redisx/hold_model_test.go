package redisx_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/redisx"
	"pgregory.net/rapid"
)

// heldLimits are sets of limits for holds: with bans, in flight, of tiers that name different rates.
var heldLimits = []string{
	"5/m", "5/10s;ban=1m", "1000000/d;ban=3h", "9/m;fixed-window", "9/m;sliding-window, 3 at once", "9/m;sliding-log, 5/m", "2 at once",
	"7/m", "20/s, 100/m;ban=10m",
}

// Holds, settlements at other costs, renewals, expiries, bans and resets, at random.
func TestHoldsAgreeWithTheModel(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	rapid.Check(t, func(t *rapid.T) {
		server.FlushAll()
		now := time.Unix(1_800_000_000, 0)
		server.SetTime(now)
		c := comparison{store: redisx.New(client, options)}
		var takes [][]core.Claim
		for i := range rapid.IntRange(1, 25).Draw(t, "steps") {
			wait := rapid.SampledFrom([]time.Duration{0, 0, time.Second, 12 * time.Second, 59_999_999 * time.Microsecond, 66 * time.Second, 10 * time.Minute}).Draw(t, "wait")
			now = now.Add(wait + time.Duration(rapid.IntRange(1, 3).Draw(t, "µs"))*time.Microsecond)
			server.SetTime(now)
			if err := playHold(t, &c, &takes, now.UnixMicro()); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
	})
}

func playHold(t *rapid.T, c *comparison, takes *[][]core.Claim, now int64) error {
	ctx := context.Background()
	verb := rapid.SampledFrom([]string{"take", "take", "take", "take", "settle", "settle", "renew", "ban", "reset"}).Draw(t, "verb")
	claims := drawHeld(t)
	switch verb {
	case "take":
		got, err := c.store.Take(ctx, claims, nil)
		if err != nil {
			return err
		}
		*takes = append(*takes, oracle.Charged(claims, got))
		for i, want := range c.model.Take(now, claims) {
			want.At = got[i].At
			if got[i] != want {
				return fmt.Errorf("take %+v, result %d:\n got %+v\nwant %+v", claims, i, got[i], want)
			}
		}
		return nil
	case "reset":
		c.model.Reset(now, claims)
		return c.store.Reset(ctx, claims)
	case "ban":
		claims[0].Ban, claims[0].Limits = time.Minute, nil
		c.model.Settle(now, claims[:1])
		return c.store.Settle(ctx, claims[:1])
	}
	if len(*takes) == 0 {
		return nil
	}
	n := rapid.IntRange(0, len(*takes)-1).Draw(t, "line")
	settled := (*takes)[n]
	for i := range settled {
		settled[i].Renew = verb == "renew" && settled[i].Hold
		settled[i].Final = rapid.SampledFrom([]int{0, 0, 1, 2, 5, 20}).Draw(t, "final")
	}
	if verb == "settle" {
		(*takes)[n] = nil
	}
	byModel := append([]core.Claim{}, settled...)
	c.model.Settle(now, byModel)
	if err := c.store.Settle(ctx, settled); err != nil {
		return err
	}
	for i := range settled {
		if !settled[i].At.Equal(byModel[i].At) {
			return fmt.Errorf("%s: claim %d is held since %v, want %v", verb, i, settled[i].At, byModel[i].At)
		}
	}
	return nil
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
		claims = append(claims, c)
	}
	return claims
}
