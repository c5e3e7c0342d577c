package redisx

import "sync/atomic"

// askedPairs says which pairs were asked for lately, to find those that are worth a lease. It takes a pair for another one now
// and then: that costs a call. The zero value is empty.
type askedPairs struct {
	cells [16384]atomic.Uint64 // half of the hash of a key, then when it was asked for, in microseconds
}

const lowHalf = 1<<32 - 1

// within reports whether the pair with a hash was asked for within length before now, in nanoseconds.
func (p *askedPairs) within(hash uint64, now, length int64) bool {
	before := p.cells[hash%uint64(len(p.cells))].Load()
	return before != 0 && before&^lowHalf == hash&^lowHalf && int64(uint32(now/1000)-uint32(before))*1000 < length
}

// note notes that the pair with a hash is asked for at now.
func (p *askedPairs) note(hash uint64, now int64) {
	p.cells[hash%uint64(len(p.cells))].Store(hash&^lowHalf | uint64(uint32(now/1000)))
}
