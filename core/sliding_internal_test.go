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

func TestARefundLeavesNoEmptyEntry(t *testing.T) {
	var s slab[entry]
	l := newScale(Every(9, time.Second).Using(SlidingLog))
	const now = 1_000_000
	q := queue{}.charge(&s, l, now, 3).charge(&s, l, now+100, 2)
	if q = q.refund(&s, now, 3); q.used != 2 || s.at(q.newest).next != q.newest {
		t.Errorf("%d used, want 2 in one entry", q.used)
	}
	if q = q.refund(&s, now+100, 2); q != (queue{}) {
		t.Errorf("%+v is left of nothing", q)
	}
}
