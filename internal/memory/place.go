package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// place gives each ask that may be charged a record to keep its state in. In a full store some may turn out to share
// one; then it reports true, and they are to be evaluated again.
func (d *decision) place(s *Store) (again bool) {
	placed := false
	for i := range d.claims {
		placed = d.placeAll(s, &d.claims[i]) || placed
	}
	if !placed {
		return false
	}
	for i := range d.claims {
		d.find(&d.claims[i])
	}
	again = len(d.claims) > 1 && d.sumUp()
	for i := range d.asks {
		d.load(&d.asks[i])
	}
	return again
}

// placeClaim is place for the only claim that is settled.
func (d *decision) placeClaim(s *Store, c *claim) {
	if d.placeAll(s, c) {
		d.find(c)
	}
}

// placeAll gives c the records that it lacks, and reports whether there were any. Records may have moved then.
func (d *decision) placeAll(s *Store, c *claim) (placed bool) {
	if c.holds && !c.peek && (c.hold == nil || c.hold.id != c.pair.id) {
		d.placeOne(s, c, algorithm.HoldKind)
		placed = true
	}
	for i := range c.asks {
		if a := &c.asks[i]; !a.own && !a.peek && a.limit.Algorithm != algorithm.InFlight {
			a.added = d.placeOne(s, c, a.limit.Kind) || a.added
			placed = true
		}
	}
	return placed
}

// placeOne gives the pair of c a record of a kind, or has it share one. It reports whether it has added one.
func (d *decision) placeOne(s *Store, c *claim, kind uint64) (added bool) {
	sh := c.shard
	first := !sh.has(c.pair.id)
	switch {
	case sh.find(c.pair.id, kind) != nil: // another ask has added it
	case s.makeRoom(d, c, kind):
		sh.add(c.pair, kind, d.now)
		for _, k := range []uint64{algorithm.HoldKind, algorithm.BanKind} {
			if first && k != kind && sh.findShared(c.pair, k) != nil {
				sh.add(c.pair, k, d.now)
			}
		}
		return true
	case sh.findShared(c.pair, kind) == nil:
		sh.insert(c.pair.shared, kind).At = d.now
		sh.shared++
	}
	return false
}

// add gives a pair a record of a kind. The pair takes along what it shared until now.
func (s *shard) add(p Pair, kind uint64, now int64) {
	shared := s.findShared(p, kind)
	if shared == nil {
		s.insert(p.id, kind).At = now
		return
	}
	own := *shared
	own.id = p.id
	switch {
	case own.hasHolds():
		own.Extra = s.holds.add(s.holds.at(own.Extra).Clone())
	case own.hasLog():
		own.Extra = s.logs.add(s.logs.at(own.Extra).Clone())
	}
	*s.insert(p.id, kind) = own
	s.endsAt(own.ends())
}
