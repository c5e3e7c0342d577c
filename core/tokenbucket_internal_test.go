package core

import (
	"testing"
	"time"
)

// 3 per millisecond drain 3 units of 1000 per request each microsecond. A burst of 4 is 4000 units, of which 2000 are used.
func TestAClockThatGoesBackFillsABucketUpToFull(t *testing.T) {
	const then = 1_000_000
	l := newScale(Every(3, time.Millisecond).WithBurst(4))
	b := bucket{}.advance(l, then).charge(l, 2)
	for _, row := range []struct {
		why         string
		back, level int64
	}{
		{"what would have drained is still to drain", 1, 2003},
		{"the last microsecond that fits", 666, 3998},
		{"one more would be more than full", 667, 4000},
		{"full is the most", then, 4000},
	} {
		now := then - row.back
		if got := b.advance(l, now); got.level != row.level || got.at != now || got.busy != now {
			t.Errorf("%s: %dµs back: %+v at %d, want level %d", row.why, row.back, got, now, row.level)
		}
	}
}

func TestTheLongestWaitThatIsNotCut(t *testing.T) {
	const longest = maxExact / 1000 // in ms
	l := &scale{rate: 1, tick: 1000}
	for level, want := range map[int64]int64{longest: longest * 1000, longest + 1: maxExact} {
		if got := (bucket{level: level, rate: 1}).until(l, 0, 0); got != want {
			t.Errorf("%d ticks: wait of %dµs, want %d", level, got, want)
		}
	}
}

// 10^10 microseconds at 10^9 per second are more units than an int64 holds.
func TestARefundAfterHoursGivesNothingBack(t *testing.T) {
	const then, hours = 1_000_000, 10_000_000_000
	l := newScale(PerSecond(1_000_000_000))
	b := bucket{level: 5 * l.period, at: then + hours, busy: then + 1, tick: l.tick, rate: l.rate}
	if got := b.refund(l, then+hours, then, 1).level; got != b.level {
		t.Errorf("level %d, want the %d of what was charged since", got, b.level)
	}
}

func TestARefundGivesTheLastUnitBack(t *testing.T) {
	l := newScale(Every(3, time.Millisecond))
	for elapsed, back := range map[int64]int64{332: 4, 333: 1, 334: 0} { // of 1000 units, of which 3 drain each microsecond
		b := bucket{level: 2000, at: 1001, busy: 1001, tick: l.tick, rate: l.rate}
		if got := b.refund(l, 1000+elapsed, 1000, 1).level; got != 2000-back {
			t.Errorf("after %dµs: level %d, want %d", elapsed, got, 2000-back)
		}
	}
}

func TestABucketCountsInTheTicksOfItsLimit(t *testing.T) {
	const now = 1_000_000
	l := newScale(PerDay(10))
	r := record{kind: l.kind&^anyTick | 1, level: 86_400_000, at: now} // ticks of 1ms
	if b := r.bucket().in(l); b.level != l.period {
		t.Errorf("%+v, want one request in ticks of 1µs", b)
	}
}
