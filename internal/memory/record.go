package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// A record is the state of one limit of one pair, or what the pair remembers whatever its limits are: 40 bytes, without
// a pointer.
//
//	       Level                                                       At             Extra
//	holds  the longest ban that their end may begin, in microseconds   when they end  their number in the slab, or 0
//	ban    1                                                           when it ends   -
type record struct {
	id uint64 // of the pair; 0 in an unused record
	algorithm.Packed
}

func (r *record) hasHolds() bool { return r.Extra != 0 && r.Is(algorithm.HoldKind) }

func (r *record) hasLog() bool { return r.Extra != 0 && r.IsLimit() && r.Row().KeepsLog }

// setHolds records when h, the holds of r, end. If there are none, r is idle from now on.
func (r *record) setHolds(h *algorithm.Holds, now int64) {
	if r.At = h.Ends(); r.At == 0 {
		r.At = now
	}
}

// ends returns the instant from which r equals the state of a new pair. If that instant has passed, it may return an
// earlier one.
func (r *record) ends() int64 {
	if !r.IsLimit() {
		return r.At
	}
	return r.Row().Ends(&r.Packed)
}
