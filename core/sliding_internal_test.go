package core

import (
	"testing"
	"time"
)

func TestAClockThatGoesBackLeavesOneEntryOfAnInstant(t *testing.T) {
	var s slab[entry]
	l := newScale(Every(9, time.Second).Using(SlidingLog))
	const now = 1_000_000
	q := queue{}.charge(&s, l, now, 1).charge(&s, l, now+100, 1).settle(&s, l, now)
	q = q.charge(&s, l, now, 2).refund(&s, now, 2)
	if q.used != 2 || s.at(q.newest).next != q.newest {
		t.Errorf("%d used, want the 2 that were not given back, in one entry", q.used)
	}
}
