package redisx

import "github.com/spillgate/spillgate/core"

// leaseRare is the state that few leases need at a time. Most leases have none, which keeps them small.
type leaseRare struct {
	unused backs         // what is to be given back
	others []after       // what the limits but the first had after the last call; nil if there are none
	grant  *grant        // in flight; nil for none
	answer []core.Result // the latest answer to a request while the grant is in flight; nil for none
}

// ensureRare returns the rare state of l, allocated if there is none.
func (l *lease) ensureRare() *leaseRare {
	if l.rare == nil {
		l.rare = new(leaseRare)
	}
	return l.rare
}

// dropRare frees the rare state of l if it is empty.
func (l *lease) dropRare() {
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
