package memory

// settle replaces what claims were charged by Final: it gives back what was too much, as far as that still counts, and charges
// what was too little, even if it does not fit. A dry run is charged more only if that fits.
func (d *decision) settle(s *Store) {
	for i := 0; i < len(d.asks); {
		end := i
		for ; end < len(d.asks) && d.asks[end].Claim == d.asks[i].Claim; end++ {
		}
		d.settleClaim(s, d.asks[i:end])
		i = end
	}
}

// settleClaim settles the asks of one claim.
func (d *decision) settleClaim(s *Store, asks []Ask) {
	if asks[0].Peek {
		return
	}
	if asks[0].Final <= asks[0].Cost {
		for i := range asks {
			a := &asks[i]
			a.find()
			if a.At >= a.shard.begunAt(a.Pair.id) {
				a.refund(d.now, a.At, a.Cost-a.Final)
			}
		}
		return
	}
	more := decision{held: d.held, asks: asks, now: d.now, offset: d.offset, admitted: true}
	for i := range asks {
		a := &asks[i]
		a.find()
		a.Cost, a.asked = a.Final-a.Cost, a.Final-a.Cost
	}
	more.place(s)
	more.loadAll()
	more.evaluate(asks[0].DryRun)
	if fits, _ := more.fits(0); !fits && asks[0].DryRun {
		return
	}
	for i := range asks {
		if asks[i].Limit.Rate > 0 {
			asks[i].charge(d.now, asks[i].Cost)
		}
	}
}
