package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// The fast path, for requests of token buckets alone: nearly all. A plain record is a bucket of a pair that holds nothing and is
// not banned, asked for at one rate. The fast path looks for no sums, room, shared records and other rates, which take.go does.
//
// It reads the clock before it waits for the locks, so that others need not wait for that. If they have charged a record
// since, the decision has the instant of that charge.

// TakeOne is Take for one token bucket whose pair has a record of it: nearly every decision. Its arguments and results stay in
// registers. It reports false if it cannot decide: then nothing has happened. A dry run alone is charged like any other claim: if
// it fits. Time tells the wall time of now, the instant of the decision. What it cannot decide Take does.
func (s *Store) TakeOne(p Pair, l *algorithm.Limit, cost int64, peek bool) (now, retry int64, u algorithm.Usage, ok bool) {
	now = s.clock.read()
	sh := s.shard(p)
	sh.Lock()
	r := sh.plain(p, l)
	if r == nil || r.at > now && s.clock.now != nil { // the clock went back
		sh.Unlock()
		return 0, 0, u, false
	}
	now = max(now, r.at)
	b := r.bucket().Drain(l, l.Rate, now)
	switch {
	case cost > l.Capacity:
		retry = Never
	case !b.Admits(l, cost):
		retry = b.Wait(l, l.Rate, now, cost)
	case !peek:
		b = b.Charge(l, now, cost)
		r.setBucket(b)
	}
	sh.Unlock()
	return now, retry, b.Report(l, l.Rate, now), true
}

// plain returns the record of a pair for l, or nil unless it is plain.
func (s *shard) plain(p Pair, l *algorithm.Limit) *record {
	n := s.first(p.id)
	if n == len(s.records) || s.records[n].isPairState() { // these come before the records of limits
		return nil
	}
	for ; s.records[n].id == p.id; n++ { // the last one is unused
		if r := &s.records[n]; r.isPlain(l) {
			return r
		}
	}
	return nil
}

// takePlain is TakeOne for several asks, or for one of a pair that may have no record yet.
func (s *Store) takePlain(asks []Ask) (now int64, ok bool) {
	for i := range asks {
		if a := &asks[i]; a.Limit.Algorithm != algorithm.TokenBucket || a.Hold || a.DryRun && len(asks) > 1 {
			return 0, false
		}
	}
	now = s.clock.read()
	held := shardsOf(asks)
	s.lock(held)
	if len(asks) == 1 {
		s.addPlain(&asks[0], now)
	}
	if now, ok = s.findPlain(asks, now); ok {
		decidePlain(asks, now)
	}
	s.unlock(held)
	for i := 0; ok && i < len(asks); i++ {
		a := &asks[i]
		a.Usage = a.plain.Report(a.Limit, a.Limit.Rate, now)
	}
	return now, ok
}

// addPlain adds the record of an empty bucket for a pair that has no record. It does not if the ask charges nothing, the store is
// full, or the shard has records that pairs share: the pair might take one along.
func (s *Store) addPlain(a *Ask, now int64) {
	sh, l := s.shard(a.Pair), a.Limit
	if a.Peek || a.Cost > l.Capacity || sh.shared > 0 || sh.has(a.Pair.id) || !s.addPair() {
		return
	}
	s.pairs.Add(-sh.sweepIdle(now-idleTTL, nil))
	r := sh.insert(a.Pair.id, l.Kind|l.Code)
	r.at, r.rate = now, uint32(l.Rate)
	a.shard, a.added = sh, true
}

// findPlain sets all records and returns the instant of the decision. It reports false if one is missing, is not plain or is that
// of two.
func (s *Store) findPlain(asks []Ask, read int64) (now int64, ok bool) {
	now = read
	for i := range asks {
		a := &asks[i]
		if a.record = s.shard(a.Pair).plain(a.Pair, a.Limit); a.record == nil {
			return 0, false
		}
		for j := range asks[:i] {
			if asks[j].record == a.record {
				return 0, false
			}
		}
		now = max(now, a.record.at)
	}
	return now, now == read || s.clock.now == nil // else the clock, which was replaced, went back
}

// decidePlain sets Retry and, if all admit their cost, charges it.
func decidePlain(asks []Ask, now int64) {
	admitted := true
	for i := range asks {
		a := &asks[i]
		a.plain = a.record.bucket().Drain(a.Limit, a.Limit.Rate, now)
		switch a.Retry = 0; {
		case a.Cost > a.Limit.Capacity:
			a.Retry, admitted = Never, false
		case !a.plain.Admits(a.Limit, a.Cost):
			a.Retry, admitted = a.plain.Wait(a.Limit, a.Limit.Rate, now, a.Cost), false
		}
	}
	for i := 0; admitted && i < len(asks); i++ {
		if a := &asks[i]; !a.Peek {
			a.plain = a.plain.Charge(a.Limit, now, a.Cost)
			a.record.setBucket(a.plain)
			if a.added {
				a.shard.endsAt(a.record.ends())
			}
		}
	}
}
