package memory

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestShardKnowsItsEarliestEnd(t *testing.T) {
	s := new(shard)
	s.begin(new(atomic.Int64))
	for i, at := range []int64{9, 7, 8} {
		id := uint64(i + 1)
		s.insert(id, 16).At = at
		s.noteEnds(id)
	}
	expect.True(t, s.seen == 7 && s.ends.Load() == 7, "seen %d, ends %d, want 7", s.seen, s.ends.Load())
}

// A table that grows moves its records past the hand of a sweep, which then starts over.
func TestSweepStartsOverIfTheTableGrows(t *testing.T) {
	s := new(shard)
	s.begin(new(atomic.Int64))
	for i, id := range ids(100) {
		s.hand, s.seen = 3, 5
		homes := s.homes
		s.insert(id, 16)
		grown := s.homes != homes
		expect.True(t, (s.hand == 0 && s.seen == math.MaxInt64) == grown && (s.hand == 3 && s.seen == 5) != grown,
			"record %d, grown: %v: the hand is at %d and has seen %d", i+1, grown, s.hand, s.seen)
	}
}

// If a record before the hand is removed, a record behind the hand moves to a place that the hand has passed.
func TestRemovalBehindTheHandOfASweep(t *testing.T) {
	for _, row := range []struct {
		off  int
		want int64
	}{{-1, 5}, {0, 5}, {1, math.MinInt64}} {
		s := newShard(20, 100)
		i := 0
		for s.records[i].Pair == 0 {
			i++
		}
		s.hand, s.seen = i+row.off, 5
		s.removeAt(i)
		expect.Equal(t, s.seen, row.want, "the hand is at %d of the record: seen", row.off)
	}
}

// A sweep passes a bounded number of unused records.
func TestSweepPassesFewUnusedRecords(t *testing.T) {
	s := newShard(1, 100)
	s.records = append(make([]record, 1000), s.records...)
	sweep(s, 1, 2)
	expect.Equal(t, s.hand, 2*(1+maxUnused), "the hand is at")
}

func TestStatsCountWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := New(100, nil), atOnce(5)
		hold(s, "a", l)
		hold(s, "a", l)
		hold(s, "b", l)
		_, _, held := s.Stats()
		expect.Equal(t, held, 3, "are held")
		time.Sleep(time.Minute + algorithm.HoldHint*time.Microsecond)
		hold(s, "c", l)
		time.Sleep(10 * time.Second)
		_, _, held = s.Stats()
		expect.Equal(t, held, 1, "are held after the others have expired")
	})
}

func TestEndOfARecord(t *testing.T) {
	const now, period = 1_000_000_000, 1_000_000
	for _, row := range []struct {
		why       string
		algorithm algorithm.Algorithm
		level, at int64
		idle      bool
	}{
		{"a bucket that was given back all", algorithm.TokenBucket, 0, now, true},
		{"one that has drained just now", algorithm.TokenBucket, 5 * period, now - period, true},
		{"not one that drains to the last unit", algorithm.TokenBucket, 5 * period, now - period + 1, false},
		{"one with room to spare that has drained just now", algorithm.TokenBucket, period, now - period/5, true},
		{"a window that was given back all", algorithm.FixedWindow, 0, now, true},
		{"one that ends now", algorithm.FixedWindow, 1, now - period, true},
		{"not one that ends soon", algorithm.FixedWindow, 1, now - period + 1, false},
		{"a log that was given back all", algorithm.SlidingLog, 0, now, true},
		{"one whose newest entry counts no longer", algorithm.SlidingLog, 1, now - period, true},
		{"not one whose newest entry still does", algorithm.SlidingLog, 1, now - period + 1, false},
	} {
		r := record{Pair: 1, Kind: limitOf(t, row.algorithm, 5, time.Second).Kind, Level: row.level, At: row.at}
		if row.algorithm == algorithm.TokenBucket {
			r.Sibling = 5
		}
		idle := r.Ends() <= now
		expect.Equal(t, idle, row.idle, "%s: idle", row.why)
	}
}

// newShard returns a shard with n buckets that end at an instant.
func newShard(n int, ends int64) *shard {
	s := new(shard)
	s.begin(new(atomic.Int64))
	for _, id := range ids(n) {
		r := s.insert(id, 1_000_000<<4)
		r.Level, r.At, r.Sibling = 1_000_000, ends-1_000_000, 1
	}
	return s
}

// sweep looks at n records of s and returns how many pairs that leaves without a record.
func sweep(s *shard, at int64, n int) (pairs int64) {
	store := New(1, nil)
	c := call{room: &room{store: store}}
	c.sweep(s, at, n)
	return -store.pairs.Load()
}

// A sweep is part of a decision, so its cost must not grow with the number of idle records.
func TestSweepLooksAtABoundedNumberOfRecords(t *testing.T) {
	const now = 1_000_000_000
	for _, row := range []struct {
		ends    int64
		dropped int
	}{{now, 3}, {now + 1, 0}} {
		s := newShard(20, row.ends)
		if got := sweep(s, now, 3); int(got) != row.dropped || s.count != 20-row.dropped {
			t.Errorf("ends at %d: %d dropped, %d left of 20, want %d dropped", row.ends, got, s.count, row.dropped)
		}
		passed := 0
		for i := range min(s.hand, len(s.records)) {
			if s.records[i].Pair != 0 {
				passed++
			}
		}
		expect.Equal(t, passed, 3-row.dropped, "ends at %d: the hand has passed records", row.ends)
	}
}

func TestSweepLearnsWhenTheNextRecordIsIdle(t *testing.T) {
	const now = 1_000_000_000
	s := newShard(20, now+5)
	s.ends.Store(0)
	for range 20 {
		sweep(s, now, 32)
	}
	expect.Equal(t, s.ends.Load(), now+5, "nothing is idle before")
	_, first := s.of(s.records[s.hand-1].Pair)
	s.removeAt(first) // may move a record past the hand
	for range 2 {
		sweep(s, now, 32)
	}
	expect.AtMost(t, s.ends.Load(), now+5, "nothing is idle before")
	s.insert(1, 16).At = 7
	s.noteEnds(1)
	expect.Equal(t, s.ends.Load(), 7, "nothing is idle before although one record ends at 7")
}

func TestFullStoreWithoutIdleRecordsSweepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour := limitOf(t, algorithm.TokenBucket, 1, time.Hour)
		s := New(1000, nil)
		for i := range 1000 {
			take(s, fmt.Sprint("live", i), hour, 1)
		}
		for i := range s.shards {
			s.shards[i].hand = 0
		}
		for i := range 5000 {
			take(s, fmt.Sprint("flood", i), hour, 1)
		}
		for i := range s.shards {
			must.Equal(t, s.shards[i].hand, 0, "shard %d was swept", i)
		}
		time.Sleep(time.Hour)
		a := take(s, "new", hour, 1)
		expect.True(t, a.own, "the new key shares a record though all others are idle: %+v", a)
	})
}

// The last idle pair of a full store is found, wherever it is.
func TestFullStoreFindsTheOnlyIdlePair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour, second := limitOf(t, algorithm.TokenBucket, 1, time.Hour), limitOf(t, algorithm.TokenBucket, 1, time.Second)
		for round := range 20 {
			s := New(1000, nil)
			take(s, fmt.Sprint("idle", round), second, 1)
			for i := range 999 {
				take(s, fmt.Sprint("live", round, i), hour, 1)
			}
			time.Sleep(2 * time.Second)
			expect.True(t, take(s, "new", hour, 1).own, "round %d: the new key shares a record though one pair is idle", round)
			audit(t, s)
		}
	})
}

func TestStoreWithRoomDropsIdleKeysAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1_000_000, nil)
		l := limitOf(t, algorithm.TokenBucket, 1000, time.Second)
		for i := range 5000 {
			take(s, fmt.Sprint(i), l, 1)
			time.Sleep(100 * time.Millisecond)
		}
		n, _, _ := s.Stats()
		expect.AtMost(t, n, 500, "keys kept of 5000, of which all but one are idle and all but 100 have been for 10s")
	})
}

func TestStoreWithRoomKeepsKeysInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1_000_000, nil)
		l := limitOf(t, algorithm.TokenBucket, 1000, time.Second)
		known := func(key int) bool {
			p := pairOf("rule", fmt.Sprint(key))
			defer take(s, fmt.Sprint(key), l, 1)
			return s.shard(p).find(p.id, l.Kind) != nil
		}
		for round := range 1000 {
			for key := range 10 {
				must.Equal(t, known(key), round > 0, "round %d: key %d is known", round, key)
				for n := range 5 {
					known(1000 + 50*round + 5*key + n)
				}
			}
			time.Sleep(time.Second)
		}
	})
}

func TestShardsBeginWithoutAnEnd(t *testing.T) {
	s := New(1, nil)
	for i := range s.shards {
		must.Equal(t, s.ends[i].Load(), math.MaxInt64, "shard %d may have idle records before it has any", i)
	}
}

// ids returns n distinct ids, of one shard.
func ids(n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = rand.Uint64()>>shardBits | 1
	}
	return list
}

// check compares a table with the pairs of id and kind that it holds.
func (t *table) check(tt *testing.T, want map[[2]uint64]bool) {
	tt.Helper()
	var in []record
	for i, r := range t.records {
		if r.Pair == 0 {
			continue
		}
		in = append(in, r)
		must.True(tt, want[[2]uint64{r.Pair, r.Kind}] && t.find(r.Pair, r.Kind) == &t.records[i],
			"record %d, of pair %x, does not belong there", i, r.Pair)
	}
	must.True(tt, len(in) == len(want) && t.count == len(want) && t.records[len(t.records)-1].Pair == 0,
		"%d records, counted as %d, want %d and an unused one at the end", len(in), t.count, len(want))
	must.True(tt, slices.IsSortedFunc(in, func(a, b record) int { return cmp.Compare(b.Pair, a.Pair) }),
		"the records are out of order")
}

func TestTableFindsItsRecords(t *testing.T) {
	var tab table
	want := make(map[[2]uint64]bool)
	keys := ids(300)
	for n := range 20_000 {
		id, kind := keys[rand.IntN(len(keys))], rand.Uint64N(3)<<4
		switch r := tab.find(id, kind); {
		case want[[2]uint64{id, kind}] != (r != nil):
			t.Fatalf("call %d: found %t", n, r != nil)
		case r != nil:
			tab.remove(slices.IndexFunc(tab.records, func(x record) bool { return x == *r }))
			delete(want, [2]uint64{id, kind})
		default:
			tab.insert(id, kind)
			want[[2]uint64{id, kind}] = true
		}
		if n%100 == 0 {
			tab.check(t, want)
		}
	}
}

// The smallest id has the last home, and all records of a pair have the same home.
func TestTableWrapsRoundAtItsEnd(t *testing.T) {
	for _, n := range []uint64{tail - 1, tail, tail + 1, 10 * tail, 1000} {
		var tab table
		want := make(map[[2]uint64]bool)
		for kind := range n {
			tab.insert(1, kind<<4)
			want[[2]uint64{1, kind << 4}] = true
		}
		tab.check(t, want)
	}
}

func TestRecordTakesAtMost48Bytes(t *testing.T) {
	const size = 40
	var tab table
	for n, id := range ids(20_000) {
		tab.insert(id, 0)
		bytes := float64(len(tab.records)*size) / float64(n+1)
		must.True(t, n <= 2000 || bytes <= 48, "%d records take %.1f bytes each", n+1, bytes)
	}
}
