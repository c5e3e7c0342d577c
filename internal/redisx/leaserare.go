package redisx

// A leaseRare is what few leases have at a time: keeping it apart makes the others small.
type leaseRare struct {
	unused backs   // what is to be given back
	others []after // what the limits but the first said after the last grant; nil if there are none
	grant  *grant  // in flight; nil for none
}

// more returns the rare state of l, to write to.
func (l *lease) more() *leaseRare {
	if l.rare == nil {
		l.rare = new(leaseRare)
	}
	return l.rare
}

// drop forgets the rare state of l if that says nothing.
func (l *lease) drop() {
	if r := l.rare; r != nil && r.unused == (backs{}) && r.others == nil && r.grant == nil {
		l.rare = nil
	}
}

// hasUnused reports whether l has requests to give back.
func (l *lease) hasUnused() bool { return l.rare != nil && l.rare.unused != (backs{}) }

// grantInFlight returns the grant in flight, or nil.
func (l *lease) grantInFlight() *grant {
	if l.rare == nil {
		return nil
	}
	return l.rare.grant
}
