package redisx_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
	"pgregory.net/rapid"
)

// A step is one call of a timeline.
type step struct {
	wait   time.Duration // before it
	verb   string        // take, refund, reset
	claims []core.Claim
	line   int // of the take to refund
	refill int // if positive, wait for RefillAfter of this result of the last take instead
}

func (s step) String() string {
	return fmt.Sprintf("+%v (refill of %d) %s %+v (line %d)\n", s.wait, s.refill, s.verb, s.claims, s.line)
}

// periods include multiples of each other, whose limits change at the same instants, and long and odd ones, which count
// in ticks of ms and s.
var periods = []time.Duration{
	time.Millisecond, 3 * time.Millisecond, time.Second, 7*time.Second + time.Microsecond, time.Minute, 24 * time.Hour,
	365 * 24 * time.Hour, 3650 * 24 * time.Hour,
}

func drawLimit(t *rapid.T, period time.Duration, a core.Algorithm) core.Limit {
	l := core.Limit{Period: period, Algorithm: a, Rate: rapid.SampledFrom([]int{0, 1, 2, 3, 10, 97}).Draw(t, "rate")}
	switch a {
	case core.TokenBucket:
		l.Burst = rapid.SampledFrom([]int{0, 1, 5, 100, 1_000_000}).Draw(t, "burst")
		if rapid.Bool().Draw(t, "fast") && l.Rate > 0 {
			l.Rate *= 10007
		}
	case core.SlidingWindow:
		l.Buckets = rapid.SampledFrom([]int{0, 2, 3, 60}).Draw(t, "buckets")
	}
	if l.Validate() != nil {
		l.Burst = 0
	}
	return l
}

func drawLimits(t *rapid.T) (limits []core.Limit) {
	for range rapid.IntRange(1, 3).Draw(t, "limits") {
		l := drawLimit(t, rapid.SampledFrom(periods).Draw(t, "period"), core.Algorithm(rapid.IntRange(0, int(core.InFlight)-1).Draw(t, "algorithm")))
		known := false
		for _, other := range limits {
			known = known || other.Period == l.Period && other.Algorithm == l.Algorithm
		}
		if !known {
			limits = append(limits, l)
		}
	}
	return limits
}

// otherTier draws limits that share some states with limits, at other rates.
func otherTier(t *rapid.T, limits []core.Limit) []core.Limit {
	if rapid.IntRange(0, 3).Draw(t, "unrelated") == 0 {
		return drawLimits(t)
	}
	var tier []core.Limit
	for _, l := range limits {
		tier = append(tier, drawLimit(t, l.Period, l.Algorithm))
	}
	return tier
}

// drawTimeline draws steps whose claims come from a few sets of limits and a few keys, so that they share state.
func drawTimeline(t *rapid.T) []step {
	tiers := [][]core.Limit{drawLimits(t)}
	for range rapid.IntRange(0, 2).Draw(t, "more tiers") {
		tiers = append(tiers, otherTier(t, tiers[0]))
	}
	steps := make([]step, rapid.IntRange(1, 25).Draw(t, "steps"))
	for i := range steps {
		s := step{verb: "take", line: rapid.IntRange(0, i).Draw(t, "line")}
		switch rapid.IntRange(0, 12).Draw(t, "verb") {
		case 0, 1:
			s.verb = "refund"
		case 2:
			s.verb = "reset"
		}
		s.wait, s.refill = drawWait(t, tiers), rapid.IntRange(-4, 3).Draw(t, "refill")
		for range rapid.IntRange(1, 3).Draw(t, "claims") {
			s.claims = append(s.claims, drawClaim(t, tiers))
		}
		steps[i] = s
	}
	return steps
}

// drawWait draws a wait at which limits change: a fraction or a multiple of a period.
func drawWait(t *rapid.T, tiers [][]core.Limit) time.Duration {
	l := rapid.SampledFrom(rapid.SampledFrom(tiers).Draw(t, "tier")).Draw(t, "limit")
	switch rapid.IntRange(0, 4).Draw(t, "wait") {
	case 0, 1:
		return 0
	case 2:
		return l.Period
	case 3:
		return time.Duration(rapid.Int64Range(0, l.Period.Microseconds()).Draw(t, "µs")) * time.Microsecond
	}
	return l.Period / time.Duration(max(1, l.Rate)) / time.Microsecond * time.Microsecond
}

func drawClaim(t *rapid.T, tiers [][]core.Limit) core.Claim {
	c := core.Claim{
		Rule: rapid.SampledFrom([]string{"", "api"}).Draw(t, "rule"), Key: rapid.SampledFrom([]string{"ip:1", "}{"}).Draw(t, "key"),
		Limits: rapid.SampledFrom(tiers).Draw(t, "tier"),
		Peek:   rapid.IntRange(0, 9).Draw(t, "peek") == 0, DryRun: rapid.IntRange(0, 5).Draw(t, "dry") == 0,
	}
	c.Cost = rapid.SampledFrom([]int{0, 1, 1, 2, 5, c.Limits[0].Capacity(), c.Limits[0].Capacity() + 1}).Draw(t, "cost")
	if canWait(c) && rapid.Bool().Draw(t, "waits") {
		c.MaxWait = drawMaxWait(t, c.Limits[0])
	}
	return c
}

// canWait reports whether requests of c may wait for their turn.
func canWait(c core.Claim) bool {
	return !c.Hold && !slices.ContainsFunc(c.Limits, func(l core.Limit) bool { return l.Algorithm != core.TokenBucket || l.Calendar.Unit != 0 || l.Ban > 0 })
}

func drawMaxWait(t *rapid.T, l core.Limit) time.Duration {
	return time.Duration(rapid.Int64Range(1, min(time.Hour, 2*l.Period).Microseconds()).Draw(t, "most")) * time.Microsecond
}
