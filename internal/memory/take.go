package memory

// A decision is what becomes of all asks of one request, while the locks of their shards are held.
type decision struct {
	held     uint64 // the shards
	asks     []Ask
	now      int64
	offset   int64 // of the wall clock
	overlap  bool  // some asks are about one state
	admitted bool
	sweeps   int // shards that were swept for room
}

// newDecision begins a decision. The caller holds the shards of asks.
func (s *Store) newDecision(asks []Ask, held uint64) decision {
	for i := range asks {
		asks[i].shard = s.shard(asks[i].Pair)
		asks[i].find()
	}
	return decision{held: held, asks: asks, now: s.clock.read(), offset: s.clock.offset()}
}

// take decides all asks, charges none unless every enforced one admits its cost, and then charges the dry runs that fit as
// well.
func (d *decision) take(s *Store) {
	d.sumUp()
	for i := range d.asks {
		d.asks[i].name(d.now)
	}
	d.loadAll()
	d.admitted = d.evaluate(false)
	if d.admitted && d.place(s) {
		d.admitted = d.evaluate(false)
	}
	d.commit(false)
	d.evaluate(true)
	d.commit(true)
	for i := range d.asks {
		d.reload(&d.asks[i])
		d.asks[i].report(d.now)
	}
}

func (d *decision) loadAll() {
	for i := range d.asks {
		d.asks[i].load(d.now, d.offset)
	}
}

// reload loads a state again that another ask may have changed.
func (d *decision) reload(a *Ask) {
	if d.overlap {
		a.find()
		a.load(d.now, d.offset)
	}
}

// sumUp adds up what the asks of one state ask for, apart from peeks, and apart for dry runs, which must not make
// others fail. It reports whether any sum has changed.
func (d *decision) sumUp() (changed bool) {
	for i := range d.asks {
		a, asked := &d.asks[i], d.asks[i].Cost
		for j := range d.asks {
			b := &d.asks[j]
			if i == j || !a.sameState(b) {
				continue
			}
			d.overlap = true
			if a.DryRun == b.DryRun && !a.Peek && !b.Peek {
				asked = min(asked+b.Cost, maxCost)
			}
		}
		changed = changed || asked != a.asked
		a.asked = asked
	}
	return changed
}

// sameState reports whether a and b are about one state: that of one pair, or one that several pairs share.
func (a *Ask) sameState(b *Ask) bool {
	return a.Limit.Kind == b.Limit.Kind && (a.Pair.id == b.Pair.id || a.record != nil && a.record == b.record)
}

// evaluate evaluates the dry runs or the others, and reports whether all admit what they are asked.
func (d *decision) evaluate(dryRun bool) bool {
	admitted := true
	for i := range d.asks {
		if a := &d.asks[i]; a.DryRun == dryRun {
			if dryRun {
				d.reload(a)
			}
			a.evaluate(d.now)
			admitted = admitted && a.Retry == 0
		}
	}
	return admitted
}

// place gives each ask that may be charged a record to keep its state in. In a full store some may turn out to share
// one; then it reports true, and they are to be evaluated again.
func (d *decision) place(s *Store) (again bool) {
	placed := false
	for i := range d.asks {
		if a := &d.asks[i]; !a.Peek && !a.own {
			a.find() // another ask may have added a record, and so moved others
			d.placeOne(s, a)
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

// placeOne adds a record for a state, or has its pair share one. A pair takes along what it shared until now.
func (d *decision) placeOne(s *Store, a *Ask) {
	sh := a.shard
	if a.own {
		return
	}
	if !s.makeRoom(d, a) {
		if a.record == nil {
			sh.insert(a.Pair.shared, a.Limit.Kind)
			sh.shared++
		}
		return
	}
	var shared record
	if a.record != nil {
		shared = *a.record
	}
	added := sh.insert(a.Pair.id, a.Limit.Kind)
	a.added = true
	if a.record != nil {
		shared.id = a.Pair.id
		if shared.extra != 0 && isLog(&shared) {
			shared.extra = sh.logs.add(sh.logs.at(shared.extra).Clone())
		}
		*added = shared
	}
}

// commit charges the dry runs or the others. A claim is charged if all its limits admit its cost.
func (d *decision) commit(dryRun bool) {
	for i := 0; d.admitted && i < len(d.asks); {
		fits, end := d.fits(i)
		for ; i < end; i++ {
			if a := &d.asks[i]; fits && a.DryRun == dryRun && !a.Peek {
				d.reload(a)
				a.charge(d.now, a.Cost)
			}
		}
	}
}

// fits reports whether all limits of the claim that begins at ask i admit its cost, and where the next claim begins.
func (d *decision) fits(i int) (fits bool, end int) {
	fits, end = true, i
	for ; end < len(d.asks) && d.asks[end].Claim == d.asks[i].Claim; end++ {
		fits = fits && d.asks[end].Retry == 0
	}
	return fits, end
}
