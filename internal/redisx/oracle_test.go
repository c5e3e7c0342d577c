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
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
	"pgregory.net/rapid"
)

// A comparison is a store and the model side by side.
type comparison struct {
	store   *redisx.Store
	advance func(time.Duration)
	model   oracle.Model
	takes   map[int]taken
	last    []core.Result
}

// taken is what a take charged and when.
type taken struct {
	at     time.Time
	claims []core.Claim
}

// play returns how store and model differ over a timeline, or nil.
func (c *comparison) play(steps []step) error {
	ctx := context.Background()
	c.takes = make(map[int]taken)
	for i, s := range steps {
		c.advance(c.wait(s))
		var err error
		switch t := c.takes[s.line]; s.verb {
		case "reset":
			c.model.Reset(s.claims)
			err = c.store.Reset(ctx, s.claims)
		case "refund":
			delete(c.takes, s.line)
			err = c.refund(t)
		default:
			err = c.take(i, s)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w\n%v", i, err, steps)
		}
	}
	return nil
}

// wait returns how long to wait before s.
func (c *comparison) wait(s step) time.Duration {
	if s.refill > 0 && s.refill <= len(c.last) && c.last[s.refill-1].RefillAfter < 10*365*24*time.Hour {
		return c.last[s.refill-1].RefillAfter
	}
	return s.wait
}

func (c *comparison) take(line int, s step) error {
	at, got, err := c.store.Take(context.Background(), s.claims, nil)
	if err != nil {
		return err
	}
	c.takes[line], c.last = taken{at, charged(s.claims, got)}, got
	for i, want := range c.model.Take(at.UnixMicro(), s.claims) {
		if got[i] != want {
			return fmt.Errorf("result %d:\n got %+v\nwant %+v", i, got[i], want)
		}
	}
	return nil
}

// refund gives back what a take charged. The model needs the instant at which the server does so, which a peek at another
// key tells; if time passes in between, nothing can be compared.
func (c *comparison) refund(t taken) error {
	if len(t.claims) == 0 {
		return nil
	}
	ctx := context.Background()
	now, _, err := c.store.Take(ctx, nil, nil)
	if err == nil {
		c.model.Refund(now.UnixMicro(), t.at.UnixMicro(), t.claims)
		err = c.store.Refund(ctx, t.claims, t.at)
	}
	return err
}

// charged returns the claims that a take with these results has charged.
func charged(claims []core.Claim, results []core.Result) (some []core.Claim) {
	for _, r := range results {
		if !r.Allowed && !r.DryRun {
			return nil
		}
	}
	for _, c := range claims {
		fits := !c.Peek
		for range c.Limits {
			fits = fits && results[0].Allowed
			results = results[1:]
		}
		if fits {
			some = append(some, c)
		}
	}
	return some
}

func TestMiniredisAgreesWithTheModel(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	rapid.Check(t, func(t *rapid.T) {
		server.FlushAll()
		now := time.Unix(1_800_000_000, 0)
		server.SetTime(now)
		c := comparison{store: redisx.New(client, options), advance: func(d time.Duration) {
			now = now.Add(d)
			server.SetTime(now)
		}}
		if err := c.play(drawTimeline(t)); err != nil {
			t.Fatal(err)
		}
	})
}

// A real server's clock runs on between calls, so refunds are left out: their instant is not known.
func TestRedisAgreesWithTheModel(t *testing.T) {
	client := redistest.Start(t).Client(t)
	rapid.Check(t, func(r *rapid.T) {
		flush(t, client)
		store := redisx.New(client, options)
		c := comparison{store: store, advance: store.Shift}
		var steps []step
		for _, s := range drawTimeline(r) {
			if s.verb != "refund" {
				steps = append(steps, s)
			}
		}
		if err := c.play(steps); err != nil {
			r.Fatal(err)
		}
		allExpire(t, client)
	})
}

// A clock that goes back is compared for the algorithms that remember a number: a sliding one that denies does not write
// down what has ceased to count by then. Nor are there refunds: a state that says nothing any more is not kept at all.
func TestMiniredisAgreesWithTheModelWhenTheClockGoesBack(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	rapid.Check(t, func(t *rapid.T) {
		server.FlushAll()
		now := time.Unix(1_800_000_000, 0)
		c := comparison{store: redisx.New(client, options), advance: func(d time.Duration) {
			if rapid.IntRange(0, 2).Draw(t, "back") == 0 {
				d = -d
			}
			now = now.Add(d)
			server.SetTime(now)
		}}
		a := core.Algorithm(rapid.IntRange(0, 1).Draw(t, "algorithm"))
		period := rapid.SampledFrom(periods[:6]).Draw(t, "period")
		tiers := []core.Limit{drawLimit(t, period, a), drawLimit(t, period, a)}
		steps := make([]step, rapid.IntRange(1, 20).Draw(t, "steps"))
		for i := range steps {
			l := rapid.SampledFrom(tiers).Draw(t, "limit")
			one := [][]core.Limit{{l}}
			steps[i] = step{verb: "take", wait: drawWait(t, one), claims: []core.Claim{drawClaim(t, one)}}
		}
		if err := c.play(steps); err != nil {
			t.Fatal(err)
		}
	})
}

// Long timelines of one key fill the entries that sliding limits keep, whose oldest, newest and middle ones matter.
func TestSlidingLimitsOfManyEntriesAgreeWithTheModel(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	rapid.Check(t, func(t *rapid.T) {
		server.FlushAll()
		now := time.Unix(1_800_000_000, 0)
		c := comparison{store: redisx.New(client, options), advance: func(d time.Duration) {
			now = now.Add(d)
			server.SetTime(now)
		}}
		a := rapid.SampledFrom([]core.Algorithm{core.SlidingWindow, core.SlidingLog}).Draw(t, "algorithm")
		limits := []core.Limit{core.Every(97, 3*time.Second).Using(a), core.Every(40, time.Second).Using(a)}
		steps := make([]step, rapid.IntRange(20, 80).Draw(t, "steps"))
		for i := range steps {
			wait := time.Duration(rapid.Int64Range(0, 100_000).Draw(t, "wait")) * time.Microsecond
			s := step{verb: "take", wait: wait, line: rapid.IntRange(0, i).Draw(t, "line")}
			claim := core.Claim{Key: "k", Limits: limits, Cost: rapid.SampledFrom([]int{1, 1, 2, 3, 7, 20, 40}).Draw(t, "cost")}
			switch rapid.IntRange(0, 9).Draw(t, "verb") {
			case 0, 1:
				s.verb = "refund"
			case 2:
				s.wait *= 20
			case 3, 4, 5:
				claim.Peek = true
			}
			s.claims, s.refill = []core.Claim{claim}, rapid.IntRange(-6, 2).Draw(t, "refill")
			steps[i] = s
		}
		if err := c.play(steps); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSubBucketsOfTheFutureAgreeWithTheModel(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	now := time.Unix(1_800_000_000, 0)
	c := comparison{store: redisx.New(client, options), advance: func(d time.Duration) {
		now = now.Add(d)
		server.SetTime(now)
	}}
	one := core.Claim{Key: "k", Limits: core.MustParseLimits("9/m;sliding-window")}
	most, all := one, one
	most.Cost, most.Peek, all.Cost, all.Peek = 7, true, 9, true
	var steps []step
	for _, seconds := range []int{0, 18, 6, 33, -37, 1, 10, 36, 10, -30, -31, 29, 30} {
		wait := time.Duration(seconds) * time.Second
		for _, claim := range []core.Claim{one, most, all} {
			steps = append(steps, step{wait: wait, verb: "take", claims: []core.Claim{claim}})
			wait = 0
		}
	}
	if err := c.play(steps); err != nil {
		t.Error(err)
	}
}

func TestPeriodsThatTicksDoNotDivide(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	for _, period := range []time.Duration{24*time.Hour + time.Microsecond, 3650*24*time.Hour - 999*time.Microsecond} {
		for _, burst := range []int{7, 1_000_000} {
			l := core.Every(999_983, period).WithBurst(burst)
			now := time.Unix(1_800_000_000, 0)
			c := comparison{store: redisx.New(client, options), advance: func(d time.Duration) {
				now = now.Add(d)
				server.SetTime(now)
			}}
			server.FlushAll()
			var steps []step
			for _, wait := range []time.Duration{0, 0, time.Microsecond, period / 999_983, period / 2, period, period/2 + time.Millisecond} {
				full := core.Claim{Key: "k", Limits: []core.Limit{l}, Cost: burst}
				one := core.Claim{Key: "k", Limits: []core.Limit{l}}
				wait = wait.Truncate(time.Microsecond)
				steps = append(steps, step{wait: wait, verb: "take", claims: []core.Claim{full}}, step{verb: "take", claims: []core.Claim{one}})
			}
			if err := c.play(steps); err != nil {
				t.Error(err)
			}
		}
	}
}
