package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// settle replaces what claims were charged, or held, by Final, keeps holds, or bans.
func (d *decision) settle(s *Store) {
	for i := 0; i < len(d.asks); {
		_, end := d.fits(i)
		claim := decision{held: d.held, asks: d.asks[i:end], now: d.now, offset: d.offset}
		claim.settleClaim(s)
		i = end
	}
}

// settleClaim settles one claim, which all asks are of. A dry run is charged more than it was, or held, only if that fits.
func (d *decision) settleClaim(s *Store) {
	for i := range d.asks {
		d.asks[i].find() // an earlier claim may have added records
	}
	switch first := &d.asks[0]; {
	case first.Ban > 0:
		d.ban(s, first)
	case first.Renew:
		first.renew(d.now)
	case first.Hold:
		if ended, late := first.release(d.now); late {
			d.adjust(s, ended)
			return
		}
		if first.DryRun && first.Final > first.Claimed && !d.admits(first.Final) {
			first.Final = first.Claimed
		}
		d.chargeAll(s, first.Final)
	default:
		d.adjust(s, first.At)
	}
}

// adjust makes what was charged at an instant the final cost.
func (d *decision) adjust(s *Store, at int64) {
	first := &d.asks[0]
	if more := first.Final - first.Claimed; more > 0 {
		if !first.DryRun || d.admits(more) {
			d.chargeAll(s, more)
		}
		return
	}
	for i := range d.asks {
		if a := &d.asks[i]; at >= a.shard.begunAt(a.Pair.id) {
			a.refund(d.now, at, a.Claimed-a.Final)
		}
	}
}

// admits reports whether all limits have room for cost.
func (d *decision) admits(cost int64) bool {
	for i := range d.asks {
		d.asks[i].rewind(d.now)
	}
	d.loadAll()
	for i := range d.asks {
		if a := &d.asks[i]; a.Limit.Algorithm != algorithm.InFlight {
			a.asked = cost
			if a.evaluate(d.now); a.Retry != 0 {
				return false
			}
		}
	}
	return true
}

// chargeAll charges cost to all limits, whether it fits or not.
func (d *decision) chargeAll(s *Store, cost int64) {
	if cost == 0 {
		return
	}
	for i := range d.asks {
		a := &d.asks[i]
		a.Hold, a.Peek = false, a.Limit.Rate == 0 // what admits nothing keeps nothing
	}
	d.place(s)
	d.loadAll()
	for i := range d.asks {
		if a := &d.asks[i]; !a.Peek {
			a.charge(d.now, cost)
		}
	}
}
