package core

import (
	"testing"
	"time"
)

func TestARecordIsIdleAsSoonAsNothingIsInUse(t *testing.T) {
	const then = 1_000_000_000
	for _, limit := range []Limit{
		PerSecond(3),
		PerDay(1_000_000), // ticks of 1ms
		Every(1_000_000_000, 24*time.Hour).WithBurst(7000), // the rate is large
		Every(1_000_000, 365*24*time.Hour),                 // ticks of 1s
	} {
		l := newScale(limit)
		var r record
		b := bucket{tick: 1}.settle(l, then).charge(l, then, 2)
		r.setBucket(b, l)
		wait := b.until(l, then, 0)
		for after, want := range map[int64]bool{0: false, wait - 1: false, wait: true, wait + 1: true} {
			if got := r.idle(then + after); got != want || want != (r.bucket().settle(l, then+after).level == 0) {
				t.Errorf("%v: %dµs after a charge that lasts %dµs: idle %t, want %t", limit, after, wait, got, want)
			}
		}
	}
}
