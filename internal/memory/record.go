package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// A record is the state of one limit of one pair: 40 bytes, without a pointer.
type record struct {
	id    uint64 // of the pair; 0 in an unused record
	kind  uint64 // bucket: packed slowest rate << 53, code of the tick; all: Kind of the limit
	level int64  // bucket: level; ban: 1; holds: the longest ban that their end may begin, in microseconds; else used
	at    int64  // bucket: at; window: start; log: the newest stamp; holds and ban: when they end
	rate  uint32 // bucket: rate; limits: heldBit
	extra uint32 // bucket: at - busy; log and holds: their number in the slab, or 0
}

const (
	tickBits  = 3
	slowestAt = 53
	kindBits  = 1<<slowestAt - 1 - tickBits

	// heldBit marks the states of limits that a held claim has named since the pair last held nothing: they are charged when its holds
	// end, even if they are empty.
	heldBit = 1 << 31
)

func (r *record) isHeld() bool { return r.rate&heldBit != 0 }

// is reports whether r is the state of a limit of this kind.
func (r *record) is(kind uint64) bool { return r.kind&kindBits == kind }

func (r *record) algorithm() algorithm.Algorithm { return algorithm.Algorithm(r.kind >> 2 & 3) }

// isPairState reports whether r is not of a limit: it is what its pair holds, or until when it is banned.
func (r *record) isPairState() bool { return r.kind&kindBits>>4 == 0 }

func (r *record) hasHolds() bool { return r.extra != 0 && r.is(algorithm.HoldKind) }

func (r *record) hasLog() bool { return r.extra != 0 && r.algorithm() >= algorithm.SlidingWindow }

// isPlain reports whether r is a bucket in the ticks of l that knows no other rate than that of l.
func (r *record) isPlain(l *algorithm.Limit) bool {
	return r.kind == l.Kind|l.Code && int64(r.rate) == l.Rate
}

// bucket returns the state of a record that isPlain.
func (r *record) bucket() algorithm.Bucket {
	return algorithm.Bucket{Level: r.level, At: r.at, Busy: r.at - int64(r.extra)}
}

// setBucket stores b in a record that isPlain.
func (r *record) setBucket(b algorithm.Bucket) {
	r.level, r.at = b.Level, b.At
	r.extra = uint32(min(max(0, b.At-b.Busy), algorithm.MaxBusy))
}

func (r *record) ratedBucket() algorithm.RatedBucket {
	return algorithm.RatedBucket{
		Bucket: r.bucket(), Unit: algorithm.Units[r.kind&tickBits], Rate: int64(r.rate &^ heldBit),
		Slowest: algorithm.UnpackRate(r.kind >> slowestAt),
	}
}

// setRatedBucket stores b, which counts in ticks of l.
func (r *record) setRatedBucket(b algorithm.RatedBucket, l *algorithm.Limit) {
	r.kind = l.Kind | l.Code | algorithm.PackRate(b.Slowest)<<slowestAt
	r.rate = uint32(b.Rate) | r.rate&heldBit
	r.setBucket(b.Bucket)
}

func (r *record) window() algorithm.Window { return algorithm.Window{Used: r.level, Start: r.at} }

func (r *record) setWindow(w algorithm.Window) { r.level, r.at = w.Used, w.Start }

// setLog notes what g, the log of r, says of itself.
func (r *record) setLog(g *algorithm.Log) { r.level, r.at = g.Used(), g.Last() }

// setHolds notes when h, the holds of r, end. If there are none, r is idle from now on.
func (r *record) setHolds(h *algorithm.Holds, now int64) {
	if r.at = h.Ends(); r.at == 0 {
		r.at = now
	}
}

// ends returns an instant from which on r equals the state of a pair never seen. If that has passed, it may be an earlier one.
func (r *record) ends() int64 {
	switch {
	case r.level == 0 || r.isPairState():
		return r.at
	case r.algorithm() == algorithm.TokenBucket:
		b := r.ratedBucket()
		return b.Ends()
	default:
		return r.at + int64(r.kind&kindBits>>4)
	}
}
