package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// takeKnown is the fast path of Take. It decides token buckets whose pairs have records of their own, which nearly all have,
// without looking for room, sums and other rates. It reports false if asks are not of that kind: then nothing has happened.
//
// It reads the clock before it waits for the locks, so that others need not wait for that. If they have charged a state
// since, the decision has the instant of that charge.
func (s *Store) takeKnown(asks []Ask) (now int64, ok bool) {
	for i := range asks {
		if asks[i].Limit.Algorithm != algorithm.TokenBucket || asks[i].Hold || asks[i].DryRun && len(asks) > 1 {
			return 0, false
		}
	}
	now = s.clock.read()
	held := s.lock(asks)
	for i := range asks {
		if !s.findKnown(asks, i) {
			s.unlock(held)
			return 0, false
		}
		if at := asks[i].record.at; at > now {
			if s.clock.now != nil { // it went back
				s.unlock(held)
				return 0, false
			}
			now = at
		}
	}
	admitted := true
	for i := range asks {
		a, l := &asks[i], asks[i].Limit
		b := a.record.bucket().Drain(l, l.Rate, now)
		a.Retry = 0
		if !b.Admits(l, a.Cost) {
			a.Retry = Never
			if a.Cost <= l.Capacity {
				a.Retry = b.Wait(l, l.Rate, now, a.Cost)
			}
			admitted = false
		}
		a.bucket.Bucket = b
	}
	for i := range asks {
		if a := &asks[i]; admitted && !a.Peek {
			b := a.bucket.Charge(a.Limit, now, a.Cost)
			a.record.setBucket(b)
			a.bucket.Bucket = b
		}
	}
	s.unlock(held)
	reportKnown(asks, now)
	return now, true
}

func reportKnown(asks []Ask, now int64) {
	for i := range asks {
		l := asks[i].Limit
		asks[i].Usage = asks[i].bucket.Report(l, l.Rate, now)
	}
}

// findKnown sets the record of ask i and reports whether takeKnown may decide it: no pair that holds something or is banned.
func (s *Store) findKnown(asks []Ask, i int) bool {
	a := &asks[i]
	if a.record = s.shard(a.Pair).plain(a.Pair, a.Limit); a.record == nil {
		return false
	}
	for j := range i {
		if asks[j].record == a.record {
			return false
		}
	}
	return true
}
