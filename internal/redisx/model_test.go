package redisx_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
	"github.com/spillgate/spillgate/internal/testpass"
	"pgregory.net/rapid"
)

func TestMiniredisAgreesWithTheModel(t *testing.T) {
	testpass.Thorough(t)
	store, server := frozen(t)
	rapid.Check(t, func(t *rapid.T) {
		c := compare(store, server)
		if err := c.play(drawTimeline(t)); err != nil {
			t.Fatal(err)
		}
	})
}

// A real server's clock advances between calls, so refunds are left out: their instant is not known.
func TestRedisAgreesWithTheModel(t *testing.T) {
	testpass.Thorough(t)
	client := redistest.Start(t).Client(t)
	rapid.Check(t, func(r *rapid.T) {
		flush(t, client)
		store := redisx.New(client, options)
		c := comparison{store: store, advance: store.Shift, takes: make(map[int][]core.Settlement)}
		var steps []step
		for _, s := range drawTimeline(r) {
			if s.verb == "refund" {
				continue
			}
			steps = append(steps, s)
		}
		if err := c.play(steps); err != nil {
			r.Fatal(err)
		}
		allExpire(t, client)
	})
}

// When the clock goes back, the store agrees with the model only for the algorithms that keep a counter: a sliding one does not
// store, when it denies, which entries have expired. Refunds are left out, because the store drops an expired state.
func TestMiniredisAgreesWithTheModelWhenTheClockGoesBack(t *testing.T) {
	testpass.Thorough(t)
	store, server := frozen(t)
	rapid.Check(t, func(t *rapid.T) {
		c := compare(store, server)
		forward := c.advance
		c.advance = func(d time.Duration) {
			if rapid.IntRange(0, 2).Draw(t, "back") == 0 {
				d = -d
			}
			forward(d)
		}
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
	testpass.Thorough(t)
	slidingLimitsAgreeWithTheModel(t, 64)
}

// Blocks of three entries make many blocks of few.
func TestSlidingLimitsOfManyBlocksAgreeWithTheModel(t *testing.T) {
	testpass.Thorough(t)
	slidingLimitsAgreeWithTheModel(t, 3)
}

func slidingLimitsAgreeWithTheModel(t *testing.T, blockSize int) {
	store, server := frozen(t)
	store.SetBlockSize(blockSize)
	rapid.Check(t, func(t *rapid.T) {
		c := compare(store, server)
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

// Refunds of a bucket depend on what was charged since and on how long it has not been empty; ticks of a millisecond and a
// second make some of that coarse, and a clock that goes back adds to it.
func TestRefundsOfBucketsAgreeWithTheModel(t *testing.T) {
	testpass.Thorough(t)
	store, server := frozen(t)
	tiers := [][]core.Limit{
		core.MustParseLimits("5/s"), core.MustParseLimits("1/s;burst=3"), core.MustParseLimits("97/3s;burst=40"), core.MustParseLimits("10/3h"),
		core.MustParseLimits("1000000/d"), {core.Every(999_983, 3650*24*time.Hour-time.Millisecond)},
	}
	rapid.Check(t, func(t *rapid.T) {
		c := compare(store, server)
		limits := rapid.SampledFrom(tiers).Draw(t, "limits")
		l := limits[0]
		perRequest := l.Period.Microseconds() / int64(l.Rate)
		steps := make([]step, rapid.IntRange(3, 30).Draw(t, "steps"))
		for i := range steps {
			s := step{verb: "take", line: rapid.IntRange(max(0, i-4), i).Draw(t, "line"), refill: rapid.IntRange(-3, 1).Draw(t, "refill")}
			s.wait = time.Duration(rapid.Int64Range(0, 3*perRequest).Draw(t, "wait")) * time.Microsecond
			claim := core.Claim{Key: "k", Limits: limits}
			claim.Cost = rapid.SampledFrom([]int{1, 1, 2, 3, l.Capacity()/2 + 1, l.Capacity()}).Draw(t, "cost")
			switch rapid.IntRange(0, 19).Draw(t, "verb") {
			case 0, 1, 2, 3, 4, 5, 6:
				s.verb = "refund"
			case 7:
				s.wait, s.refill = -s.wait, 0
			case 8:
				s.wait, s.refill = 71*time.Minute+35*time.Second, 0 // longer than busy reaches back
			}
			if rapid.Bool().Draw(t, "waits") {
				claim.MaxWait = drawMaxWait(t, l)
			}
			s.claims = []core.Claim{claim}
			steps[i] = s
		}
		if err := c.play(steps); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSubBucketsOfTheFutureAgreeWithTheModel(t *testing.T) {
	for _, blockSize := range []int{1, 2, 100} {
		t.Run(fmt.Sprintf("blocks of %d", blockSize), func(t *testing.T) { subBucketsOfTheFutureAgreeWithTheModel(t, blockSize) })
	}
}

func subBucketsOfTheFutureAgreeWithTheModel(t *testing.T, blockSize int) {
	store, server := frozen(t)
	store.SetBlockSize(blockSize)
	c := compare(store, server)
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

func TestPeriodsThatTicksDoNotDivideAgreeWithTheModel(t *testing.T) {
	store, server := frozen(t)
	for _, period := range []time.Duration{24*time.Hour + time.Microsecond, 3650*24*time.Hour - 999*time.Microsecond} {
		for _, burst := range []int{7, 1_000_000} {
			l := core.Every(999_983, period).WithBurst(burst)
			c := compare(store, server)
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
