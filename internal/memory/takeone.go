package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// An Answer is what TakeOne decided.
type Answer struct {
	Now   int64 // the instant of the decision; Time tells its wall time
	Retry int64 // as in Ask
	Usage algorithm.Usage
}

// TakeOne is takeKnown for one claim of one token bucket: nearly every decision. It avoids an Ask, which has room for every
// algorithm. A dry run alone is charged like any other claim: if it fits.
func (s *Store) TakeOne(p Pair, l *algorithm.Limit, cost int64, peek bool) (a Answer, ok bool) {
	now := s.clock.read()
	sh := s.shard(p)
	sh.Lock()
	r := sh.plain(p, l)
	if r == nil || r.at > now && s.clock.now != nil { // it went back
		sh.Unlock()
		return a, false
	}
	now = max(now, r.at)
	b := r.bucket().Drain(l, l.Rate, now)
	switch admits := b.Admits(l, cost); {
	case admits && !peek:
		b = b.Charge(l, now, cost)
		r.setBucket(b)
	case admits:
	case cost > l.Capacity:
		a.Retry = Never
	default:
		a.Retry = b.Wait(l, l.Rate, now, cost)
	}
	sh.Unlock()
	a.Now, a.Usage = now, b.Report(l, l.Rate, now)
	return a, true
}

// plain returns the record of a pair for l, or nil unless it isPlain and the pair holds nothing and is not banned.
func (s *shard) plain(p Pair, l *algorithm.Limit) *record {
	first := s.first(p.id)
	r := s.pick(first, p.id, l.Kind)
	if r == nil || !r.isPlain(l) || s.records[first].isPairState() {
		return nil
	}
	return r
}
