package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// place gives each ask that may be charged a record to keep its state in. In a full store some may turn out to share
// one; then it reports true, and they are to be evaluated again.
func (d *decision) place(s *Store) (again bool) {
	placed := false
	for i := range d.asks {
		a := &d.asks[i]
		if a.Peek {
			continue
		}
		if a.Hold && (a.pair.holds == nil || a.pair.holds.id != a.Pair.id) {
			d.placeOne(s, a, algorithm.HoldKind)
			placed = true
		}
		if !a.own && a.Limit.Algorithm != algorithm.InFlight {
			d.placeOne(s, a, a.Limit.Kind)
			placed = true
		}
	}
	if !placed {
		return false
	}
	for i := range d.asks {
		d.asks[i].find()
	}
	d.loadAll()
	return len(d.asks) > 1 && d.sumUp()
}

// placeOne gives the pair of a a record of a kind, or has it share one.
func (d *decision) placeOne(s *Store, a *Ask, kind uint64) {
	sh := a.shard
	first := !sh.has(a.Pair.id)
	switch {
	case sh.find(a.Pair.id, kind) != nil: // another ask has added it
	case s.makeRoom(d, a, kind):
		a.added = true
		sh.add(a.Pair, kind)
		for _, k := range []uint64{algorithm.HoldKind, algorithm.BanKind} {
			if first && k != kind && sh.findShared(a.Pair, k) != nil {
				sh.add(a.Pair, k)
			}
		}
	case sh.findShared(a.Pair, kind) == nil:
		sh.insert(a.Pair.shared, kind)
		sh.shared++
	}
}

// add gives a pair a record of a kind. The pair takes along what it shared until now.
func (s *shard) add(p Pair, kind uint64) {
	shared := s.findShared(p, kind)
	if shared == nil {
		s.insert(p.id, kind)
		return
	}
	own := *shared
	own.id = p.id
	switch {
	case own.hasHolds():
		own.extra = s.holds.add(s.holds.at(own.extra).Clone())
	case own.hasLog():
		own.extra = s.logs.add(s.logs.at(own.extra).Clone())
	}
	*s.insert(p.id, kind) = own
	s.endsAt(own.ends())
}
