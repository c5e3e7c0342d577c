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

// What a decision costs does not grow with what is in the log: it is made while others wait for the shard.
func TestALongLogIsDecidedAsFastAsAShortOne(t *testing.T) {
	l := newScale(Every(10_000, time.Hour).Using(SlidingLog))
	fastest := func(entries int64) time.Duration {
		var s slab[entry]
		var q queue
		for now := range entries {
			q = q.charge(&s, l, now, 1)
		}
		best := time.Hour
		for range 10 {
			begin := time.Now()
			for range 100 {
				settled := q.settle(&s, l, entries)
				if u := settled.report(&s, l, entries); settled.wait(&s, l, entries, 1) != 0 || u.reset != l.micros-1 || u.refill != l.micros-entries {
					t.Fatalf("%+v", u)
				}
			}
			best = min(best, time.Since(begin))
		}
		return best
	}
	if short, long := fastest(10), fastest(9000); long > 20*short {
		t.Errorf("a hundred decisions take %v with 10 entries and %v with 9000", short, long)
	}
}
