package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// A Known asks for a token bucket of a pair that has a record of it, as nearly all have. It is an Ask that has no room for
// other algorithms, for holds and for dry runs.
type Known struct {
	Pair  Pair
	Limit *algorithm.Limit // of a token bucket
	Cost  int64
	Peek  bool

	Retry int64 // as in Ask

	record *record
	bucket algorithm.Bucket
}

// TakeKnown is Take for token buckets whose pairs have records of their own. It does not look for room, sums and other rates.
// It reports false if it cannot decide all: then nothing has happened.
//
// It reads the clock before it waits for the locks, so that others need not wait for that. If they have charged a state
// since, the decision has the instant of that charge.
func (s *Store) TakeKnown(all []Known) (now int64, ok bool) {
	var held uint64
	for i := range all {
		held |= all[i].Pair.shardBit()
	}
	now = s.clock.read()
	s.lock(held)
	if now, ok = s.findKnown(all, now); ok {
		decideKnown(all, now)
	}
	s.unlock(held)
	return now, ok
}

// Usage returns what the bucket leaves after TakeKnown has decided it at now.
func (k *Known) Usage(now int64) algorithm.Usage { return k.bucket.Report(k.Limit, k.Limit.Rate, now) }

// findKnown sets all records and returns the instant of the decision. It reports false if one is missing, is not plain or is that
// of two.
func (s *Store) findKnown(all []Known, read int64) (now int64, ok bool) {
	now = read
	var records []record
	for i := range all {
		k := &all[i]
		if i == 0 || k.Pair.id != all[i-1].Pair.id {
			records = s.shard(k.Pair).limitsOf(k.Pair.id)
		}
		k.record = plain(records, k.Pair.id, k.Limit)
		if k.record == nil {
			return 0, false
		}
		for j := range all[:i] {
			if all[j].record == k.record {
				return 0, false
			}
		}
		now = max(now, k.record.at)
	}
	return now, now == read || s.clock.now == nil // else the clock, which was replaced, went back
}

// decideKnown sets Retry and, if all admit their cost, charges it.
func decideKnown(all []Known, now int64) {
	admitted := true
	for i := range all {
		k := &all[i]
		k.bucket = k.record.bucket().Drain(k.Limit, k.Limit.Rate, now)
		if k.Retry = 0; !k.bucket.Admits(k.Limit, k.Cost) {
			k.Retry = wait(k.bucket, k.Limit, now, k.Cost)
			admitted = false
		}
	}
	if !admitted {
		return
	}
	for i := range all {
		if k := &all[i]; !k.Peek {
			k.bucket = k.bucket.Charge(k.Limit, now, k.Cost)
			k.record.setBucket(k.bucket)
		}
	}
}

// wait returns how long after now b, which does not admit cost at now, admits it, or Never.
func wait(b algorithm.Bucket, l *algorithm.Limit, now, cost int64) int64 {
	if cost > l.Capacity {
		return Never
	}
	return b.Wait(l, l.Rate, now, cost)
}
