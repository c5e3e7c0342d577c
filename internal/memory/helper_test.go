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

// A query is one limit of one claim, or of one settlement, and what the store says of it. The queries of one claim follow
// each other and have the same number.
type query struct {
	Pair   Pair
	Limit  *algorithm.Limit // nil in a ban
	Claim  int
	Cost   int64
	Peek   bool
	DryRun bool
	Hold   bool

	Renew   bool
	Renewed bool
	At      int64
	Final   int64
	Ban     int64

	Answer
	own bool // the pair has a record of its own
}

// limitsOf returns the limits of the first claim of queries, and their number.
func limitsOf(queries []query) (limits []algorithm.Limit, n int) {
	for ; n < len(queries) && queries[n].Claim == queries[0].Claim; n++ {
		if queries[n].Limit != nil {
			limits = append(limits, *queries[n].Limit)
		}
	}
	return limits, n
}

// decide has s decide queries.
func decide(s *Store, queries []query) time.Time {
	var claims []Claim
	for i := 0; i < len(queries); {
		q := &queries[i]
		limits, n := limitsOf(queries[i:])
		claims = append(claims, Claim{Pair: q.Pair, Limits: limits, Cost: q.Cost, Peek: q.Peek, DryRun: q.DryRun, Hold: q.Hold})
		i += n
	}
	answers := make([]Answer, len(queries))
	at := s.Take(claims, answers)
	for i := range queries {
		q := &queries[i]
		q.Answer, q.own = answers[i], s.shard(q.Pair).find(q.Pair.id, q.Limit.Kind) != nil
	}
	return at
}

// settle has s settle queries.
func settle(s *Store, queries []query) {
	var settlements []Settlement
	var firsts []*query
	for i := 0; i < len(queries); {
		q := &queries[i]
		limits, n := limitsOf(queries[i:])
		settlements = append(settlements, Settlement{
			Pair: q.Pair, Limits: limits, Claimed: q.Cost, At: q.At, DryRun: q.DryRun, Held: q.Hold, Final: q.Final, Renew: q.Renew, Ban: q.Ban,
		})
		firsts = append(firsts, q)
		i += n
	}
	s.Settle(settlements)
	for i, q := range firsts {
		q.At, q.Renewed = settlements[i].At, settlements[i].Renewed
	}
}

// pairOf returns the pair of a rule and a key.
func pairOf(rule, key string) Pair { return RuleOf(rule).Pair(key) }

// take asks s for cost of one key and returns the answer.
func take(s *Store, key string, l *algorithm.Limit, cost int64) *query {
	queries := []query{{Pair: pairOf("rule", key), Limit: l, Cost: cost}}
	decide(s, queries)
	return &queries[0]
}

// sharing returns two keys that share records in a full store.
func sharing(s *Store) (a, b string) {
	seen := make(map[uint64]string)
	for i := 0; ; i++ {
		key := strconv.Itoa(i)
		p := pairOf("rule", key)
		if other, ok := seen[p.shared]; ok {
			return other, key
		}
		seen[p.shared] = key
	}
}

// audit compares the counters of s with its records.
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
			if sh.find(r.id, kindOf(r)) != r {
				t.Errorf("shard %d: record %d is not found", i, j)
			}
			if r.hasHolds() {
				holds++
			}
			if r.hasLog() {
				logs++
				if g := sh.logs.at(r.Extra); g.Used() != r.Level || g.Last() != r.At {
					t.Errorf("shard %d: record %d counts %d until %d, its log %d until %d", i, j, r.Level, r.At, g.Used(), g.Last())
				}
			}
		}
		if records != sh.count || shared != sh.shared {
			t.Errorf("shard %d counts %d records, %d of them shared; it has %d, %d", i, sh.count, sh.shared, records, shared)
		}
		if used := int(sh.holds.used) - len(sh.holds.unused); used != holds {
			t.Errorf("shard %d has %d holds in use, but records refer to %d", i, used, holds)
		}
		if used := int(sh.logs.used) - len(sh.logs.unused); used != logs {
			t.Errorf("shard %d has %d logs in use, but records refer to %d", i, used, logs)
		}
	}
	if n := s.pairs.Load(); int(n) != len(pairs) || n > s.maxKeys {
		t.Errorf("the store counts %d pairs and has %d; at most %d may be", n, len(pairs), s.maxKeys)
	}
}

// kindOf returns the kind by which r is found.
func kindOf(r *record) uint64 {
	if !r.IsLimit() {
		return r.Kind
	}
	l := r.Row().LimitOf(&r.Packed, &noLog)
	return l.Kind
}
