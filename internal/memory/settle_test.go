package memory

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// Records move while others are added.
func TestClaimIsSettledAfterOthersThatAddRecords(t *testing.T) {
	for _, a := range algorithms {
		synctest.Test(t, func(t *testing.T) {
			s := New(10_000, nil)
			l := limitOf(t, a, 5, time.Hour)
			at := s.Instant(decide(s, []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 3}}))
			var asks []query
			for i := range 3000 {
				asks = append(asks, query{Pair: pairOf("rule", strconv.Itoa(i)), Claim: i, Ban: 1_000_000})
			}
			settle(s, append(asks, query{Pair: pairOf("rule", "key"), Limit: l, Claim: 3000, Cost: 3, At: at}))
			if a := take(s, "key", l, 5); a.Retry != 0 {
				t.Errorf("%d: what was given back still counts: %+v", l.Algorithm, a.Usage)
			}
			audit(t, s)
		})
	}
}

// The first instant after a reset is no earlier than a charge that follows at once.
func TestChargeRightAfterAResetIsGivenBack(t *testing.T) {
	for _, a := range algorithms {
		synctest.Test(t, func(t *testing.T) {
			s := New(100, nil)
			l := limitOf(t, a, 5, time.Hour)
			take(s, "key", l, 5)
			s.Reset(pairOf("rule", "key"))
			asks := []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 5}}
			asks[0].At = s.Instant(decide(s, asks))
			settle(s, asks)
			if a := take(s, "key", l, 5); a.Retry != 0 {
				t.Errorf("%d: what was given back still counts: %+v", l.Algorithm, a.Usage)
			}
		})
	}
}

// Otherwise denials would last until the clock is back where it was.
func TestDryRunThatDoesNotFitSettlesTheClockAsWell(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := New(100, func() time.Time { return now })
	l := limitOf(t, algorithm.TokenBucket, 10, time.Minute)
	at := s.Instant(decide(s, []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 5}}))
	now = now.Add(-time.Minute)
	settle(s, []query{{Pair: pairOf("rule", "key"), Limit: l, Cost: 1, Final: 9, At: at, DryRun: true}})
	now = now.Add(30 * time.Second)
	if a := take(s, "key", l, 5); a.Retry != 0 {
		t.Errorf("denied for %dµs half a minute after the clock went back", a.Retry)
	}
}
