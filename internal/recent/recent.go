// Package recent records when something last happened to a pair of rule and key, for many pairs in little memory. It sometimes confuses
// two pairs, so it serves to avoid work, not to decide.
package recent

import (
	"math"
	"sync/atomic"
	"time"
)

// Pairs has an instant for each pair, by its hash. A pair that shares a cell with another one replaces it. Instants are times since some
// beginning; a pair seems recent again 71 minutes after it was recorded. The zero value is empty, small, and safe for concurrent use.
type Pairs struct {
	cells atomic.Pointer[cells] // nil until a pair is recorded
}

type cells [16384]atomic.Uint64 // half of a hash, then the microseconds

const lowHalf = 1<<32 - 1

// Note records the pair with a hash at now.
func (p *Pairs) Note(hash uint64, now time.Duration) {
	if p.cells.Load() == nil {
		p.cells.CompareAndSwap(nil, new(cells))
	}
	p.cells.Load()[hash%uint64(len(cells{}))].Store(hash&^lowHalf | uint64(uint32(now.Microseconds())))
}

// Age returns how long before now the pair with a hash was recorded, or math.MaxInt64 if it is not recorded.
func (p *Pairs) Age(hash uint64, now time.Duration) time.Duration {
	c := p.cells.Load()
	if c == nil {
		return math.MaxInt64
	}
	v := c[hash%uint64(len(c))].Load()
	if v == 0 || v&^lowHalf != hash&^lowHalf {
		return math.MaxInt64
	}
	return time.Duration(uint32(now.Microseconds())-uint32(v)) * time.Microsecond
}
