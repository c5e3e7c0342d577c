package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// When a hold ends, its cost is charged to all states of its pair. The store does so at the next call about the pair;
// until then, sweeps keep the pair's records.

// loadPair sets what the pair of c holds now, and for how long it is banned.
func (d *decision) loadPair(c *Claim) {
	c.heldCost, c.held, c.banned = 0, 0, 0
	if c.ban != nil {
		c.banned = c.ban.At - d.now
	}
	if c.hold != nil && c.hold.hasHolds() {
		h := c.shard.holds.at(c.hold.Extra)
		h.Rewind(d.now)
		c.heldCost, c.held = h.Sum(d.now)
	}
}

// loadPairs loads again what pairs hold, after a hold was added.
func (d *decision) loadPairs() {
	for i := range d.claims {
		d.loadPair(&d.claims[i])
	}
}

// addHold holds cost for the request of c.
func (d *decision) addHold(c *Claim, cost int64) {
	c.add(d.now, cost)
	d.rare = true
	d.loadPairs()
	for i := range c.asks {
		a := &c.asks[i]
		if !a.hasRecord() { // in flight
			continue
		}
		a.addLog(c.shard)
		if a.Limit.Row.Keep != nil {
			a.Limit.Row.Keep(&a.State)
		}
		a.Stored.Hold()
		c.hold.Level = max(c.hold.Level, a.Limit.Ban)
		a.noteEnd(c.shard)
	}
}

// add adds the hold of one request to the record of its pair.
func (c *Claim) add(now, cost int64) {
	if c.hold.Extra == 0 {
		c.hold.Extra = c.shard.holds.add(algorithm.Holds{})
	}
	h := c.shard.holds.at(c.hold.Extra)
	h.Add(now, cost, 1)
	c.hold.setHolds(h, now)
	c.shard.endsAt(c.hold.At)
}

// endHolds charges what the pairs held in sub-buckets that have ended by now.
func (d *decision) endHolds() {
	for i := range d.claims {
		c := &d.claims[i]
		if c.hold == nil || !c.hold.hasHolds() {
			continue
		}
		h := c.shard.holds.at(c.hold.Extra)
		h.Rewind(d.now)
		if ended := h.Ended(d.now); len(ended) > 0 {
			d.endAll(c, ended)
			h.Drop(d.now)
			c.shard.held(c.hold, d.now)
		}
	}
	d.loadPairs()
}

// endAll charges the ended holds of c's pair to the pair's states. If the holds are the pair's own, it also charges all
// states that the pair shares, because it is not known which of them the pair has used.
func (d *decision) endAll(c *Claim, ended []algorithm.Ending) {
	s := c.shard
	ids := [2]uint64{c.hold.id, c.Pair.shared}
	for n, id := range ids {
		if n > 0 && (s.shared == 0 || id == ids[0]) {
			continue
		}
		for i := s.first(id); i < len(s.records) && s.records[i].id == id; i++ {
			if r := &s.records[i]; r.IsLimit() {
				d.endHold(s, r, ended)
				s.endsAt(r.ends())
			}
		}
	}
}

// endHold charges ended holds to the state in r: by the limit that names the state or, if none does, by the limit that
// the state itself describes.
func (d *decision) endHold(s *shard, r *record, ended []algorithm.Ending) {
	row, g := r.Row(), s.logOf(r.Row(), &r.Packed)
	if row.KeepsLog && r.Extra == 0 {
		return
	}
	l, peek := d.limitFor(r)
	if l == nil || l.Rate == 0 {
		own := row.LimitOf(&r.Packed, g)
		l = &own
	}
	row.Finish(&r.Packed, g, l, peek, d.now, d.offset, ended)
}

// limitFor returns the first limit for a record that asks name, and whether a peek does; nil if there is none.
func (d *decision) limitFor(r *record) (l *algorithm.Limit, peek bool) {
	for i := range d.asks {
		if a := &d.asks[i]; a.Stored == &r.Packed {
			return a.Limit, a.Peek
		}
	}
	return nil, false
}

// held records when the holds in r end. Once there are none, no state is kept for them.
func (s *shard) held(r *record, now int64) {
	h := s.holds.at(r.Extra)
	r.setHolds(h, now)
	s.endsAt(r.At)
	if h.Ends() > 0 {
		return
	}
	r.Level = 0
	for i := s.first(r.id); i < len(s.records) && s.records[i].id == r.id; i++ {
		if s.records[i].IsLimit() {
			s.records[i].Release()
		}
	}
}

// idleFrom returns the instant from which r equals the state of a new pair. If that instant has passed, it may return
// an earlier one. A state of a pair with holds is not idle until the charges at the ends of the holds have drained.
func (s *shard) idleFrom(r *record) int64 {
	if s.holds.isEmpty() || r.Is(algorithm.BanKind) {
		return r.ends()
	}
	holds := s.find(r.id, algorithm.HoldKind)
	switch {
	case holds == nil || !holds.hasHolds() || s.holds.at(holds.Extra).Ends() == 0:
		return r.ends()
	case r != holds:
		return s.idleAfter(r, holds)
	}
	ends := r.ends()
	for i := s.first(r.id); i < len(s.records) && s.records[i].id == r.id; i++ {
		if state := &s.records[i]; state.IsLimit() {
			ends = max(ends, s.idleAfter(state, holds))
		}
	}
	return ends
}

// idleAfter is idleFrom for the state of a limit, whose pair has holds.
func (s *shard) idleAfter(r, holds *record) int64 {
	row := r.Row()
	ended := s.holds.at(holds.Extra).Ended(algorithm.MaxExact)
	return max(row.EndsAfter(&r.Packed, s.logOf(row, &r.Packed), ended), holds.At) + holds.Level
}
