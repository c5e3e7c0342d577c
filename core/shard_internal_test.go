package core

import (
	"testing"
	"time"
)

func TestWhatIsIdle(t *testing.T) {
	const now, period = 1_000_000_000, 1_000_000
	for _, row := range []struct {
		why       string
		algorithm Algorithm
		level, at int64
		idle      bool
	}{
		{"a bucket that has given back all", TokenBucket, 0, now, true},
		{"one that has drained just now", TokenBucket, 5 * period, now - period, true},
		{"not one that drains to the last unit", TokenBucket, 5 * period, now - period + 1, false},
		{"a window that has given back all", FixedWindow, 0, now, true},
		{"one that ends now", FixedWindow, 1, now - period, true},
		{"not one that ends soon", FixedWindow, 1, now - period + 1, false},
		{"a log that has given back all", SlidingLog, 0, now, true},
		{"one whose newest counts no longer", SlidingLog, 1, now - period, true},
		{"not one whose newest still does", SlidingLog, 1, now - period + 1, false},
	} {
		kind := kindOf(Every(5, time.Second).Using(row.algorithm)) &^ anyTick
		r := record{id: 1, kind: kind, level: row.level, at: row.at, rate: 5}
		if r.idle(now) != row.idle {
			t.Errorf("%s: idle %t", row.why, r.idle(now))
		}
	}
}
