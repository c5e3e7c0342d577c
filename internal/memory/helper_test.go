package memory

import (
	"strconv"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// limitOf returns a compiled limit of rate per period, with its own capacity.
func limitOf(t testing.TB, a algorithm.Algorithm, rate int64, period time.Duration) *algorithm.Limit {
	t.Helper()
	l := algorithm.Limit{Algorithm: a, Rate: rate, Capacity: rate, Micros: period.Microseconds()}
	if a == algorithm.SlidingWindow {
		l.Width = algorithm.CeilDiv(l.Micros, 10)
	}
	l, ok := algorithm.Compile(l)
	if !ok {
		t.Fatalf("%d per %v does not fit", rate, period)
	}
	return &l
}

var algorithms = []algorithm.Algorithm{
	algorithm.TokenBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingLog,
}

// decide decides asks as core does: by TakeOne, if there is one and that can.
func decide(s *Store, asks []Ask) time.Time {
	if len(asks) == 1 && asks[0].Limit.Algorithm == algorithm.TokenBucket && !asks[0].Hold {
		a := &asks[0]
		if now, retry, u, ok := s.TakeOne(a.Pair, a.Limit, a.Cost, a.Peek); ok {
			a.Retry, a.Usage = retry, u
			return s.Time(now)
		}
	}
	return s.Take(asks)
}

// take asks s for cost of one key and returns the answer.
func take(s *Store, key string, l *algorithm.Limit, cost int64) *Ask {
	asks := []Ask{{Pair: s.Pair("rule", key), Limit: l, Cost: cost}}
	decide(s, asks)
	return &asks[0]
}

// sharing returns two keys that share records in a full store.
func sharing(s *Store) (a, b string) {
	seen := make(map[uint64]string)
	for i := 0; ; i++ {
		key := strconv.Itoa(i)
		p := s.Pair("rule", key)
		if other, ok := seen[p.shared]; ok {
			return other, key
		}
		seen[p.shared] = key
	}
}

// audit compares what s counts with what it holds.
func audit(t *testing.T, s *Store) {
	t.Helper()
	pairs := make(map[uint64]bool)
	for i := range s.shards {
		sh := &s.shards[i]
		var records, shared, logs, holds int
		for j := range sh.records {
			r := &sh.records[j]
			if r.id == 0 {
				continue
			}
			if records++; isShared(r.id) {
				shared++
			} else {
				pairs[r.id] = true
			}
			if sh.find(r.id, r.kind&kindBits) != r {
				t.Errorf("shard %d: record %d is not found", i, j)
			}
			if r.hasHolds() {
				holds++
			}
			if r.hasLog() {
				logs++
				if g := sh.logs.at(r.extra); g.Used() != r.level || g.Last() != r.at {
					t.Errorf("shard %d: record %d counts %d until %d, its log %d until %d", i, j, r.level, r.at, g.Used(), g.Last())
				}
			}
		}
		if records != sh.count || shared != sh.shared {
			t.Errorf("shard %d counts %d records, %d of them shared; it has %d, %d", i, sh.count, sh.shared, records, shared)
		}
		if used := int(sh.holds.used) - len(sh.holds.unused); used != holds {
			t.Errorf("shard %d has %d holds in use, of which records have %d", i, used, holds)
		}
		if used := int(sh.logs.used) - len(sh.logs.unused); used != logs {
			t.Errorf("shard %d has %d logs in use, of which records have %d", i, used, logs)
		}
	}
	if n := s.pairs.Load(); int(n) != len(pairs) || n > s.maxKeys {
		t.Errorf("the store counts %d pairs and has %d; at most %d may be", n, len(pairs), s.maxKeys)
	}
}
