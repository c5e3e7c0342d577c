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

// A sweep is a part of a decision, so what it costs has a bound, however many records are idle.
func TestASweepLooksAtAsManyAsItIsTold(t *testing.T) {
	const now, kind = 1_000_000_000, 1_000_000 << 4
	for _, idle := range []bool{true, false} {
		var s shard
		for _, id := range ids(20) {
			r := s.insert(id, kind|anyTick)
			r.level, r.at, r.rate = 1_000_000, now-2_000_000, 1
			if !idle {
				r.at = now
			}
		}
		want := map[bool]int{true: 3, false: 0}[idle]
		if got := s.sweep(now, 3, nil); int(got) != want || s.count != 20-want {
			t.Errorf("idle %t: %d dropped, %d left of 20, want %d dropped", idle, got, s.count, want)
		}
		looked := 0
		for i := range min(s.hand, len(s.records)) {
			if s.records[i].id != 0 {
				looked++
			}
		}
		if looked != 3-want {
			t.Errorf("idle %t: the hand has passed %d records, want %d", idle, looked, 3-want)
		}
	}
}

func TestATableIsNeverTooFull(t *testing.T) {
	var tab table
	for n, id := range ids(5000) {
		if tab.insert(id, 0); fullest*uint64(tab.count) > (fullest-1)*tab.homes {
			t.Fatalf("%d records for %d homes", n+1, tab.homes)
		}
	}
}
