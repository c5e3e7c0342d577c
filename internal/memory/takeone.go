package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// TakeOne is TakeKnown for one token bucket: nearly every decision. Its arguments and results stay in registers. A dry run alone
// is charged like any other claim: if it fits. Time tells the wall time of now, the instant of the decision.
func (s *Store) TakeOne(p Pair, l *algorithm.Limit, cost int64, peek bool) (now, retry int64, u algorithm.Usage, ok bool) {
	now = s.clock.read()
	sh := s.shard(p)
	sh.Lock()
	r := sh.plain(sh.first(p.id), p, l)
	if r == nil || s.wentBack(r, now) {
		sh.Unlock()
		return 0, 0, u, false
	}
	now = max(now, r.at)
	b := r.bucket().Drain(l, l.Rate, now)
	if retry = wait(b, l, now, cost); retry == 0 && !peek {
		b = b.Charge(l, now, cost)
		r.setBucket(b)
	}
	sh.Unlock()
	return now, retry, b.Report(l, l.Rate, now), true
}

// plain returns the record of a pair for l, or nil unless it isPlain and the pair holds nothing and is not banned.
func (s *shard) plain(first int, p Pair, l *algorithm.Limit) *record {
	for i := first; i < len(s.records) && s.records[i].id == p.id; i++ {
		switch r := &s.records[i]; {
		case r.isPairState(): // these come first
			return nil
		case r.isPlain(l):
			return r
		}
	}
	return nil
}
