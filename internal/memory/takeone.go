package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// TakeOne is TakeKnown for one token bucket, also of a pair that has no record yet: nearly every decision. Its arguments and
// results stay in registers. A dry run alone is charged like any other claim: if it fits. Time tells the wall time of now, the
// instant of the decision.
func (s *Store) TakeOne(p Pair, l *algorithm.Limit, cost int64, peek bool) (now, retry int64, u algorithm.Usage, ok bool) {
	now = s.clock.read()
	sh := s.shard(p)
	sh.Lock()
	r, added := plain(sh.limitsOf(p.id), p.id, l), false
	if r == nil && !peek && cost <= l.Capacity {
		r = s.addPlain(sh, p, l, now)
		added = r != nil
	}
	if r == nil || r.at > now && s.clock.now != nil { // the clock went back
		sh.Unlock()
		return 0, 0, u, false
	}
	now = max(now, r.at)
	b := r.bucket().Drain(l, l.Rate, now)
	switch admits := b.Admits(l, cost); {
	case !admits:
		retry = wait(b, l, now, cost)
	case !peek:
		b = b.Charge(l, now, cost)
		r.setBucket(b)
		if added {
			sh.endsAt(r.ends())
		}
	}
	sh.Unlock()
	return now, retry, b.Report(l, l.Rate, now), true
}

// addPlain adds the record of an empty bucket for a pair that has no record. It returns nil if the pair has one, the store is full,
// or the shard has records that pairs share: the pair might take one along.
func (s *Store) addPlain(sh *shard, p Pair, l *algorithm.Limit, now int64) *record {
	if sh.shared > 0 || sh.has(p.id) || !s.addPair() {
		return nil
	}
	s.pairs.Add(-sh.sweepIdle(now-idleTTL, nil))
	r := sh.insert(p.id, l.Kind|l.Code)
	r.at, r.rate = now, uint32(l.Rate)
	return r
}

// limitsOf returns the records of a pair and those behind them, or none if the pair holds something or is banned.
func (s *shard) limitsOf(id uint64) []record {
	first := s.first(id)
	if first == len(s.records) || s.records[first].isPairState() { // the states of a pair come before those of its limits
		return nil
	}
	return s.records[first:]
}

// plain returns the record of a pair for l, or nil unless it isPlain. Records begin with those of the pair.
func plain(records []record, id uint64, l *algorithm.Limit) *record {
	for i := range records {
		switch r := &records[i]; {
		case r.id != id:
			return nil
		case r.isPlain(l):
			return r
		}
	}
	return nil
}
