package redisx

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/spillgate/spillgate/core"
)

// maxExact is the largest whole number that a script counts up to: what a float64 holds exactly.
const maxExact = 1 << 53

// A request is a Take or a Refund in the terms of the scripts. It keeps no reference to the claims.
type request struct {
	keys   []string
	meters []meter
	parts  []part
	usages []usage // room for those of all parts
}

// A meter is one limit of one claim: see lua/limit.lua.
type meter struct {
	claim, key     int
	algorithm      core.Algorithm
	peek, dryRun   bool
	cost, asked    int64
	micros, unit   int64
	period         int64 // token bucket: in ticks of unit microseconds
	rate, capacity int64
}

// requests are those that nobody needs any more. Without them, most of what a decision allocates would be its request, and
// the collector, which looks at the stack of each caller that waits, would run several times as often.
var requests = sync.Pool{New: func() any { return new(request) }}

// release ends the use of r. No flight may have it on board: one that somebody gave up waiting for still has.
func (r *request) release() {
	clear(r.keys)
	clear(r.parts)
	r.keys, r.meters = r.keys[:0], r.meters[:0]
	requests.Put(r)
}

// newRequest returns a request of claims, or an error that wraps core.ErrInvalid.
func (l *layout) newRequest(claims []core.Claim) (*request, error) {
	for i := range claims {
		if err := claims[i].Validate(); err != nil {
			return nil, err
		}
	}
	r := requests.Get().(*request)
	for i := range claims {
		r.addClaim(l, &claims[i], i)
	}
	r.addTwins()
	return r, nil
}

func (r *request) addClaim(l *layout, c *core.Claim, i int) {
	key := r.keyIndex(l.key(c.Rule, c.Key))
	cost := min(int64(max(c.Cost, 1)), maxExact)
	for j := range c.Limits {
		limit := &c.Limits[j]
		m := meter{
			claim: i, key: key, algorithm: limit.Algorithm, peek: c.Peek, dryRun: c.DryRun, cost: cost, asked: cost,
			micros: limit.Period.Microseconds(), rate: int64(limit.Rate), capacity: int64(limit.Capacity()),
		}
		m.unit = unitOf(limit, m.capacity, m.micros)
		if limit.Algorithm == core.TokenBucket {
			m.period = ceilDiv(m.micros, m.unit)
		}
		r.meters = append(r.meters, m)
	}
}

// keyIndex returns the place of key in r.keys, where it is from now on.
func (r *request) keyIndex(key string) int {
	for i := range r.keys {
		if r.keys[i] == key {
			return i
		}
	}
	r.keys = append(r.keys, key)
	return len(r.keys) - 1
}

// unitOf returns the microseconds per tick of a token bucket, or per sub-bucket of a sliding window. A tick is the finest
// of µs, ms and s for which a full bucket fits maxExact.
func unitOf(l *core.Limit, capacity, micros int64) int64 {
	switch l.Algorithm {
	case core.SlidingWindow:
		return l.Width().Microseconds()
	case core.TokenBucket:
		for _, tick := range [...]int64{1, 1000} {
			if hi, lo := bits.Mul64(uint64(capacity), uint64((micros+tick-1)/tick)); hi == 0 && lo <= maxExact {
				return tick
			}
		}
		return 1_000_000
	}
	return 0
}

// addTwins adds up what the meters of one state ask for, apart from peeks, and apart for dry runs, which must not make
// others fail.
func (r *request) addTwins() {
	for i := 1; i < len(r.meters); i++ {
		for j := range r.meters[:i] {
			a, b := &r.meters[i], &r.meters[j]
			if a.key == b.key && a.algorithm == b.algorithm && a.micros == b.micros && a.dryRun == b.dryRun && !a.peek && !b.peek {
				a.asked = min(a.asked+b.cost, maxExact)
				b.asked = min(b.asked+a.cost, maxExact)
			}
		}
	}
}

// appendWords appends what a script reads as m, with the place of its key among those of its part.
func (m *meter) appendWords(b []byte, begins bool, place int) []byte {
	head := uint64(place+1) << 3
	for i, flag := range [...]bool{begins, m.peek, m.dryRun} {
		if flag {
			head |= 1 << i
		}
	}
	b = binary.LittleEndian.AppendUint64(b, head)
	for _, n := range [...]int64{m.micros<<4 | int64(m.algorithm)<<2, m.cost, m.asked, m.rate, m.capacity, m.unit} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}
