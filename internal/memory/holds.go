package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// What is held is charged when it ends: to all states of its pair, whether or not a request has asked for the pair since. That
// happens at the next call that is about the pair; until then sweeps keep its records.

// endHolds charges what the pairs of asks held in sub-buckets that have ended at now.
func (d *decision) endHolds() {
	for i := range d.asks {
		a := &d.asks[i]
		if a.pair.holds == nil || !a.pair.holds.hasHolds() {
			continue
		}
		h := a.shard.holds.at(a.pair.holds.extra)
		h.Rewind(d.now)
		if ended := h.Ended(d.now); len(ended) > 0 {
			d.endAll(a, ended)
			h.Drop(d.now)
			a.shard.held(a.pair.holds, d.now)
		}
	}
	for i := range d.asks {
		d.asks[i].pair.load(d.asks[i].shard, d.now)
	}
}

// endAll charges what ended holds of the pair of a become to its states. If the holds are its own, that is to the states that it
// shares as well: which of them it has used is not known.
func (d *decision) endAll(a *Ask, ended []algorithm.Ending) {
	s := a.shard
	ids := [2]uint64{a.pair.holds.id, a.Pair.shared}
	for n, id := range ids {
		if n > 0 && (s.shared == 0 || id == ids[0]) {
			continue
		}
		for i := s.first(id); i < len(s.records) && s.records[i].id == id; i++ {
			if r := &s.records[i]; !r.isPairState() {
				l, peek := d.limitFor(r)
				s.end(r, l, peek, d.now, d.offset, ended)
				s.endsAt(r.ends())
			}
		}
	}
}

// limitFor returns the first limit for a record that asks name, and whether a peek does; nil if there is none.
func (d *decision) limitFor(r *record) (l *algorithm.Limit, peek bool) {
	for i := range d.asks {
		if a := &d.asks[i]; a.record == r {
			return a.Limit, a.Peek
		}
	}
	return nil, false
}

// end charges what ended holds become to the state in r. If l is nil, the state is charged by what it knows itself.
func (s *shard) end(r *record, l *algorithm.Limit, peek bool, now, offset int64, ended []algorithm.Ending) {
	var own algorithm.Limit
	if l == nil || l.Rate == 0 {
		own = s.limitOf(r)
		l = &own
	}
	switch {
	case r.algorithm() == algorithm.TokenBucket:
		b := r.ratedBucket()
		if after := b.End(l, peek, r.isHeld(), now, ended); after != b {
			r.setRatedBucket(after, l)
		}
	case r.algorithm() == algorithm.FixedWindow:
		r.setWindow(r.window().End(l, r.isHeld(), offset, ended))
	case r.extra != 0:
		g := s.logs.at(r.extra)
		g.End(l, r.isHeld(), ended)
		r.setLog(g)
	}
}

// limitOf returns a limit that says of the state in r what that knows itself: the period, and how it is charged.
func (s *shard) limitOf(r *record) algorithm.Limit {
	l := algorithm.Limit{Algorithm: r.algorithm(), Micros: int64(r.kind & kindBits >> 4), Kind: r.kind & kindBits}
	switch {
	case l.Algorithm == algorithm.TokenBucket:
		b := r.ratedBucket()
		l.Rate, l.Unit, l.Code = b.Rate, b.Unit, r.kind&tickBits
		l.Period = algorithm.CeilDiv(l.Micros, l.Unit)
	case r.hasLog():
		l.Width = s.logs.at(r.extra).Width()
	}
	return l
}

// keep has the state of a, an ask of a claim that is held, say how it is charged when the hold ends.
func (a *Ask) keep(now int64) {
	switch a.Limit.Algorithm {
	case algorithm.InFlight:
		return
	case algorithm.TokenBucket:
		if b := a.record.ratedBucket(); b.Rate != a.Limit.Rate {
			after := a.advance(b, now)
			if !a.own && b.Rate > 0 {
				after.Rate = min(after.Rate, b.Rate)
			}
			a.record.setRatedBucket(after, a.Limit)
		}
	case algorithm.FixedWindow:
	default:
		a.addLog()
		a.log.Keep(a.Limit, now)
	}
	a.record.rate |= heldBit
	a.pair.holds.level = max(a.pair.holds.level, a.Limit.Ban)
	a.shard.endsAt(a.record.ends())
}

// held notes when the holds in r end. Once there are none, no state is kept for them.
func (s *shard) held(r *record, now int64) {
	h := s.holds.at(r.extra)
	r.setHolds(h, now)
	s.endsAt(r.at)
	if h.Ends() > 0 {
		return
	}
	r.level = 0
	for i := s.first(r.id); i < len(s.records) && s.records[i].id == r.id; i++ {
		if !s.records[i].isPairState() {
			s.records[i].rate &^= heldBit
		}
	}
}

// empty forgets what was charged to the state in r, but not how it is charged when a hold ends.
func (s *shard) empty(r *record) {
	switch {
	case r.algorithm() == algorithm.TokenBucket:
		l := s.limitOf(r)
		r.setRatedBucket(algorithm.RatedBucket{Bucket: algorithm.Bucket{At: r.at, Busy: r.at}, Unit: l.Unit, Rate: l.Rate}, &l)
	case r.hasLog():
		g := s.logs.at(r.extra)
		g.Forget()
		r.setLog(g)
	default:
		r.level = 0
	}
}

// idleFrom returns an instant from which on r equals the state of a pair never seen. If that has passed, it may be an earlier one. A
// state of a pair that holds something is not idle before what it is charged when the holds end has drained.
func (s *shard) idleFrom(r *record) int64 {
	if s.holds.isEmpty() || r.is(algorithm.BanKind) {
		return r.ends()
	}
	holds := s.find(r.id, algorithm.HoldKind)
	switch {
	case holds == nil || !holds.hasHolds() || s.holds.at(holds.extra).Ends() == 0:
		return r.ends()
	case r != holds:
		return s.idleAfter(r, holds)
	}
	ends := r.ends()
	for i := s.first(r.id); i < len(s.records) && s.records[i].id == r.id; i++ {
		if state := &s.records[i]; !state.isPairState() {
			ends = max(ends, s.idleAfter(state, holds))
		}
	}
	return ends
}

// idleAfter is idleFrom for the state of a limit, whose pair has holds.
func (s *shard) idleAfter(r, holds *record) int64 {
	l := s.limitOf(r)
	if l.Algorithm != algorithm.TokenBucket {
		return max(r.ends(), holds.at+l.Width+l.Micros)
	}
	b := r.ratedBucket()
	b = b.End(&l, false, r.isHeld(), 0, s.holds.at(holds.extra).Ended(algorithm.MaxExact))
	return max(b.Ends(), holds.at) + holds.level
}
