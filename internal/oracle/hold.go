package oracle

import (
	"maps"
	"math/big"
	"slices"

	"github.com/spillgate/spillgate/core"
)

const (
	second     = 1_000_000
	holdWidth  = 6 * second  // of a sub-bucket, in microseconds
	holdExpiry = 66 * second // from the start of a sub-bucket on
	hint       = 1 * second  // the wait where holds are in the way, whose end is unknown
)

// held is what the requests of one sub-bucket hold together.
type held struct{ cost, count int64 }

// holds are what a pair holds, by the start of the sub-bucket in which the hold was made.
type holds map[int64]held

// advance drops what has expired at now. After the clock went back, later holds count as made now.
func (h holds) advance(now int64) {
	latest := begin(now, holdWidth)
	for start, some := range h {
		if now >= start+holdExpiry {
			delete(h, start)
		}
		if start > latest {
			delete(h, start)
			h.add(now, some)
		}
	}
}

func (h holds) add(now int64, some held) {
	start := begin(now, holdWidth)
	h[start] = held{saturated(h[start].cost, some.cost), h[start].count + some.count}
}

func (h holds) sum() (sum held) {
	for _, some := range h {
		sum.cost = saturated(sum.cost, some.cost)
		sum.count += some.count
	}
	return sum
}

// release takes the hold of a request from the sub-bucket of the instant at, and returns it. There is none if it has expired.
func (h holds) release(at, cost int64) (held, bool) {
	if len(h) == 0 || at < 0 {
		return held{}, false
	}
	start := min(begin(at, holdWidth), slices.Max(slices.Collect(maps.Keys(h))))
	some := h[start]
	if some.count == 0 {
		return held{}, false
	}
	released := held{min(cost, some.cost), 1}
	h[start] = held{some.cost - released.cost, some.count - 1}
	if some.count == 1 {
		delete(h, start)
	}
	return released, true
}

// Held returns what a pair of rule and key holds, as cost and as requests, and whether it is banned at now.
func (m *Model) Held(now int64, rule, key string) (cost, count int64, banned bool) {
	p := m.pair(core.Pair{Rule: rule, Key: key})
	p.holds.advance(now)
	sum := p.holds.sum()
	return sum.cost, sum.count, p.banned > now
}

// inFlight is the state of a limit that counts holds: nothing is ever charged to it.
type inFlight struct{}

func (inFlight) rewind(core.Limit, int64)                     {}
func (inFlight) name(core.Limit, bool, int64)                 {}
func (inFlight) charge(core.Limit, int64, int64)              {}
func (inFlight) refund(core.Limit, int64, int64, int64)       {}
func (inFlight) used(core.Limit, bool, int64, int64) *big.Rat { return new(big.Rat) }
