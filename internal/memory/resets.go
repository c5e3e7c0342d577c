package memory

// resets remembers when pairs were reset. Charges from before are not given back any more, since other requests may have been
// charged in their place.
type resets struct {
	begun  map[uint64]int64 // by pair: the first instant after its reset
	forgot int64            // the latest instant that is no longer in begun
}

// maxResets bounds the resets that a shard remembers.
const maxResets = 1024

// begin takes note that the first instant after the reset of a pair is at.
func (r *resets) begin(id uint64, at int64) {
	if r.begun == nil {
		r.begun = make(map[uint64]int64)
	}
	if len(r.begun) == maxResets {
		clear(r.begun)
		r.forgot = at
	}
	r.begun[id] = at
}

// begunAt returns the instant before which charges of a pair are not given back. It may be too late if many pairs were reset.
func (r *resets) begunAt(id uint64) int64 { return max(r.begun[id], r.forgot) }
