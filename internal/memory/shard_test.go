package memory

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

func TestTheEarliestEndIsKnown(t *testing.T) {
	s := new(shard)
	s.begin(new(atomic.Int64))
	for _, at := range []int64{9, 7, 8} {
		s.endsAt(at)
	}
	if s.seen != 7 || s.ends.Load() != 7 {
		t.Errorf("seen %d, ends %d, want 7", s.seen, s.ends.Load())
	}
}

// A table that grows moves its records past the hand of a sweep, which begins anew then.
func TestASweepBeginsAnewIfTheTableGrows(t *testing.T) {
	s := new(shard)
	s.begin(new(atomic.Int64))
	for i, id := range ids(100) {
		s.hand, s.seen = 3, 5
		homes := s.homes
		s.insert(id, 16)
		grown := s.homes != homes
		if (s.hand == 0 && s.seen == math.MaxInt64) != grown || (s.hand == 3 && s.seen == 5) == grown {
			t.Errorf("record %d, grown: %v: the hand is at %d and has seen %d", i+1, grown, s.hand, s.seen)
		}
	}
}

// What is behind the hand moves to where it has passed if a record before it is removed.
func TestARemovalBehindTheHandOfASweep(t *testing.T) {
	for _, row := range []struct {
		off  int
		want int64
	}{{-1, 5}, {0, 5}, {1, math.MinInt64}} {
		s := newShard(20, 100)
		i := 0
		for s.records[i].id == 0 {
			i++
		}
		s.hand, s.seen = i+row.off, 5
		if s.removeAt(i); s.seen != row.want {
			t.Errorf("the hand is at %d of the record: seen %d, want %d", row.off, s.seen, row.want)
		}
	}
}

// A sweep passes a bounded number of unused records.
func TestASweepPassesFewUnusedRecords(t *testing.T) {
	s := newShard(1, 100)
	s.records = append(make([]record, 1000), s.records...)
	s.sweep(1, 2, nil)
	if want := 2 * (1 + maxUnused); s.hand != want {
		t.Errorf("the hand is at %d, want %d", s.hand, want)
	}
}

func TestStatsCountWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := New(100, nil), atOnce(5)
		hold(s, "a", l)
		hold(s, "a", l)
		hold(s, "b", l)
		if _, _, held := s.Stats(); held != 3 {
			t.Errorf("%d are held, want 3", held)
		}
		time.Sleep(time.Minute + algorithm.HoldHint*time.Microsecond)
		hold(s, "c", l)
		time.Sleep(10 * time.Second)
		if _, _, held := s.Stats(); held != 1 {
			t.Errorf("%d are held after the others have expired, want 1", held)
		}
	})
}
