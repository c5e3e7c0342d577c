package core_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/testpass"
	"pgregory.net/rapid"
)

// mixedRates draws calls for one bucket that name very different rates, and refunds of some.
var mixedRates = rapid.Custom(func(t *rapid.T) timeline {
	bursts := rapid.SampledFrom([][]int{{0}, {40}, {7, 1_000_000}}).Draw(t, "bursts")
	period := rapid.SampledFrom([]time.Duration{time.Second, time.Hour, 1000 * time.Hour}).Draw(t, "period")
	tl := make(timeline, rapid.IntRange(2, 30).Draw(t, "calls"))
	for i := range tl {
		l := core.Every(rapid.SampledFrom([]int{0, 1, 3, 10, 129, 5_000, 999_999}).Draw(t, "rate"), period)
		l.Burst = rapid.SampledFrom(bursts).Draw(t, "burst")
		claim := core.Claim{Rule: "a", Key: "x", Limits: []core.Limit{l}, Cost: costs(l.Capacity()).Draw(t, "cost")}
		claim.Peek = rapid.IntRange(0, 4).Draw(t, "peek") == 4
		claim.DryRun = rapid.IntRange(0, 4).Draw(t, "dry") == 4
		tl[i] = call{verb: "take", claims: []core.Claim{claim}, wait: waits(period/10).Draw(t, "wait")}
		switch rapid.IntRange(0, 9).Draw(t, "verb") {
		case 7:
			tl[i].claims = append(tl[i].claims, tl[max(0, i-1)].claims...)
		case 8:
			tl[i].claims = append(tl[i].claims, core.Claim{Rule: "b", Key: "x", Limits: []core.Limit{core.PerDay(0)}})
		case 9:
			tl[i].verb, tl[i].finals, tl[i].line = "refund", []int{0}, rapid.IntRange(0, max(0, i-1)).Draw(t, "line")
		}
	}
	return tl
})

func TestBucketDrainsAtTheSlowerOfTwoRatesAsInTheModel(t *testing.T) {
	testpass.Thorough(t)
	for range testpass.Rounds(3) {
		rapid.Check(t, func(r *rapid.T) {
			tl := mixedRates.Draw(r, "timeline")
			inBubble(t, r, func() error { return compare(tl) })
		})
	}
}
