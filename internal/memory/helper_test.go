package memory

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// limitOf returns a compiled limit of rate per period, with its own capacity.
func limitOf(t testing.TB, a algorithm.Algorithm, rate int64, period time.Duration) *algorithm.Limit {
	t.Helper()
	l := algorithm.Limit{Algorithm: a, Rate: rate, Capacity: rate, Micros: period.Microseconds()}
	if a == algorithm.SlidingWindow {
		l.Width = algorithm.CeilDiv(l.Micros, 10)
	}
	l, ok := algorithm.Compile(l)
	must.True(t, ok, "%d per %v does not fit", rate, period)
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

func decide(s *Store, queries []query) time.Time {
	var ops []Op
	for i := 0; i < len(queries); {
		q := &queries[i]
		limits, n := limitsOf(queries[i:])
		o := Op{Pair: q.Pair, Limits: limits, Cost: q.Cost, DryRun: q.DryRun}
		switch {
		case q.Peek:
			o.Kind = Peek
		case q.Hold:
			o.Kind = Hold
		}
		ops = append(ops, o)
		i += n
	}
	answers := make([]Answer, len(queries))
	at, _ := s.Do(ops, answers)
	for i := range queries {
		q := &queries[i]
		q.Answer, q.own = answers[i], s.shard(q.Pair).find(q.Pair.id, q.Limit.Kind) != nil
	}
	return s.Time(at)
}

func settle(s *Store, queries []query) {
	var ops []Op
	var firsts []*query
	for i := 0; i < len(queries); {
		q := &queries[i]
		limits, n := limitsOf(queries[i:])
		o := Op{Kind: Adjust, Pair: q.Pair, Limits: limits, Cost: q.Cost, At: q.At, Turn: algorithm.NoTurn, DryRun: q.DryRun, N: q.Final}
		switch {
		case q.Ban > 0:
			o.Kind, o.N = Ban, q.Ban
		case q.Renew:
			o.Kind = Renew
		case q.Hold:
			o.Kind = Release
		}
		ops, firsts = append(ops, o), append(firsts, q)
		i += n
	}
	at, _ := s.Do(ops, nil)
	for i, q := range firsts {
		q.At, q.Renewed = ops[i].At, ops[i].Kind == Renew && ops[i].At == at
	}
}

func reset(s *Store, p Pair) { _, _ = s.Do([]Op{{Kind: Reset, Pair: p}}, nil) }

func (s *Store) shard(p Pair) *shard { return &s.shards[p.shard()] }

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
		var records, shared, logs, cells int
		for j := range sh.records {
			r := &sh.records[j]
			if r.Pair == 0 {
				continue
			}
			if records++; isShared(r.Pair) {
				shared++
			} else {
				pairs[r.Pair] = true
			}
			run, _ := sh.of(r.Pair)
			expect.True(t, slices.Contains(run, *r), "shard %d: record %d is not found", i, j)
			switch {
			case r.Kind == algorithm.CellsKind:
				cells++
			case r.HasLog():
				logs++
			}
		}
		expect.True(t, records == sh.count && shared == sh.shared,
			"shard %d counts %d records, %d of them shared; it has %d, %d", i, sh.count, sh.shared, records, shared)
		used := sh.cells.Len()
		expect.True(t, used == cells, "shard %d has the cells of %d pairs, but records refer to %d", i, used, cells)
		used = sh.logs.Len()
		expect.True(t, used == logs, "shard %d has %d logs in use, but records refer to %d", i, used, logs)
	}
	if n := s.pairs.Load(); int(n) != len(pairs) || n > s.maxKeys {
		t.Errorf("the store counts %d pairs and has %d; at most %d may be", n, len(pairs), s.maxKeys)
	}
}
