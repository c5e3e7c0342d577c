package redisx

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/spillgate/spillgate/core"
)

// maxExact is the largest whole number that a script counts up to: what a float64 holds exactly.
const maxExact = 1 << 53

// A request is a Take or a Settle in the terms of the scripts. It keeps no reference to the claims.
type request struct {
	script      *script
	keys        []string
	asks        []ask
	settlements []settlement // of a Settle, by claim
	jobs        []job
	usages      []usage // backs those of the jobs
}

// An ask is one limit of one claim: see lua/limit.lua.
type ask struct {
	claim, key         int
	algorithm          core.Algorithm
	peek, dryRun, hold bool
	cost, asked        int64
	micros, unit       int64
	period             int64 // token bucket: in ticks of unit microseconds
	rate, capacity     int64
	ban                int64
}

// requests are those that are no longer used. A request is most of what a decision would allocate.
var requests = sync.Pool{New: func() any { return new(request) }}

// release ends the use of r. It must not be called while a batch holds a job of r, as that of a caller that gave up does.
func (r *request) release() {
	clear(r.keys)
	clear(r.jobs)
	r.keys, r.asks, r.settlements = r.keys[:0], r.asks[:0], r.settlements[:0]
	requests.Put(r)
}

// newTake returns the request of a Take, or an error that wraps core.ErrInvalid.
func (l *layout) newTake(claims []core.Claim) (*request, error) {
	for i := range claims {
		if err := claims[i].Validate(); err != nil {
			return nil, err
		}
	}
	r := requests.Get().(*request)
	r.script = &takeScript
	for i := range claims {
		r.addClaim(l, &claims[i], i)
	}
	r.addUpCosts()
	return r, nil
}

func (r *request) addClaim(l *layout, c *core.Claim, i int) {
	key := r.keyIndex(l.key(c.Rule, c.Key))
	cost := min(int64(max(c.Cost, 1)), maxExact)
	if len(c.Limits) == 0 { // a ban
		r.asks = append(r.asks, ask{claim: i, key: key})
	}
	for j := range c.Limits {
		limit := &c.Limits[j]
		a := ask{
			claim: i, key: key, algorithm: limit.Algorithm, peek: c.Peek, dryRun: c.DryRun, hold: c.Hold, cost: cost, asked: cost,
			micros: limit.Period.Microseconds(), rate: int64(limit.Rate), capacity: int64(limit.Capacity()),
		}
		a.unit = unitOf(limit, a.capacity, a.micros)
		if limit.Algorithm == core.TokenBucket {
			a.period = ceilDiv(a.micros, a.unit)
		}
		r.asks = append(r.asks, a)
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

// addUpCosts adds up what several claims ask of one state. Peeks are left out; dry runs are added up on their own, because
// they must not make others fail.
func (r *request) addUpCosts() {
	for i := 1; i < len(r.asks); i++ {
		for j := range r.asks[:i] {
			a, b := &r.asks[i], &r.asks[j]
			if a.key == b.key && a.algorithm == b.algorithm && a.micros == b.micros && a.dryRun == b.dryRun && !a.peek && !b.peek {
				a.asked = min(a.asked+b.cost, maxExact)
				b.asked = min(b.asked+a.cost, maxExact)
			}
		}
	}
}

// appendWords appends what a script reads as a, with the place of its key among those of its job.
func (a *ask) appendWords(b []byte, begins bool, place int) []byte {
	head := uint64(place+1) << 4
	for i, flag := range [...]bool{begins, a.peek, a.dryRun, a.hold} {
		if flag {
			head |= 1 << i
		}
	}
	b = binary.LittleEndian.AppendUint64(b, head)
	for _, n := range [...]int64{a.micros<<4 | int64(a.algorithm)<<2, a.cost, a.asked, a.rate, a.capacity, a.unit, a.ban} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}
