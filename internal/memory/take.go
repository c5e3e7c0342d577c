package memory

// A decision is what becomes of all asks of one request, while the locks of their shards are held.
type decision struct {
	held     uint64 // the shards
	asks     []Ask
	now      int64
	offset   int64 // of the wall clock
	overlap  bool  // some asks are about one state
	dryRuns  bool  // some asks are dry runs
	admitted bool
	sweeps   int // shards that were swept for room
}

// newDecision begins a decision. The caller holds the shards of asks.
func (s *Store) newDecision(asks []Ask, held uint64) decision {
	for i := range asks {
		asks[i].shard = s.shard(asks[i].Pair)
		asks[i].find()
	}
	d := decision{held: held, asks: asks, now: s.clock.read(), offset: s.clock.offset()}
	d.endHolds()
	return d
}

// take decides all asks, charges none unless every enforced one admits its cost, and then charges the dry runs that fit as
// well.
func (d *decision) take(s *Store) {
	d.sumUp()
	for i := range d.asks {
		d.asks[i].rewind(d.now)
		d.asks[i].name(d.now)
	}
	d.loadAll()
	d.admitted = d.evaluate(false)
	if d.admitted && d.place(s) {
		d.admitted = d.evaluate(false)
	}
	d.commit(false)
	if d.dryRuns {
		d.evaluate(true)
		d.commit(true)
	}
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
		a.load(d.now, d.offset)
	}
}

// sumUp adds up what the asks of one state ask for, apart from peeks, and apart for dry runs, which must not make
// others fail. It reports whether any sum has changed.
func (d *decision) sumUp() (changed bool) {
	for i := range d.asks {
		a, asked := &d.asks[i], d.asks[i].Cost
		d.dryRuns = d.dryRuns || a.DryRun
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

// commit charges the dry runs or the others, or holds their cost. A claim is charged if all its limits admit its cost.
func (d *decision) commit(dryRun bool) {
	for i := 0; d.admitted && i < len(d.asks); {
		fits, end := d.fits(i)
		fits = fits && d.asks[i].DryRun == dryRun && !d.asks[i].Peek
		if a := &d.asks[i]; fits && a.Hold {
			a.pair.hold(a.shard, d.now, a.Claimed)
			d.loadHolds()
		}
		for ; i < end; i++ {
			switch a := &d.asks[i]; {
			case !fits:
			case a.Hold:
				a.keep(d.now)
			default:
				d.reload(a)
				a.charge(d.now, a.Cost)
			}
		}
	}
}

// loadHolds loads again what is held, after a hold was added.
func (d *decision) loadHolds() {
	for i := range d.asks {
		d.asks[i].pair.load(d.asks[i].shard, d.now)
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
