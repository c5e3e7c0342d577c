package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// TakeOne is TakeKnown for one token bucket: nearly every decision. Its arguments and results stay in registers. A dry run alone
// is charged like any other claim: if it fits. Time tells the wall time of now, the instant of the decision.
func (s *Store) TakeOne(p Pair, l *algorithm.Limit, cost int64, peek bool) (now, retry int64, u algorithm.Usage, ok bool) {
	now = s.clock.read()
	sh := s.shard(p)
	sh.Lock()
	r := plain(sh.limitsOf(p.id), p.id, l)
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
	}
	sh.Unlock()
	return now, retry, b.Report(l, l.Rate, now), true
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
