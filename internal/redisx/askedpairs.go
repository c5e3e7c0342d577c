package redisx

import "sync/atomic"

// askedPairs says which pairs were asked for lately, to find those that are worth a lease. It takes a pair for another one now
// and then: that costs a call. The zero value is empty.
type askedPairs struct {
	cells [16384]atomic.Uint64 // half of the hash of a key, then when it was asked for, in microseconds
}

// ask notes that the pair with a hash is asked for at now, in nanoseconds, and reports whether it was within length before.
func (p *askedPairs) ask(hash uint64, now, length int64) bool {
	const half = 1<<32 - 1
	at := uint32(now / 1000)
	before := p.cells[hash%uint64(len(p.cells))].Swap(hash&^half | uint64(at))
	return before != 0 && before&^half == hash&^half && int64(at-uint32(before))*1000 < length
}
