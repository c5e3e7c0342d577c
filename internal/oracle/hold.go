package oracle

import (
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

const (
	second     = 1_000_000
	holdWidth  = 6 * second  // of a sub-bucket, in microseconds
	holdExpiry = 66 * second // counted from the start of a sub-bucket
	hint       = 1 * second  // the wait while holds use up the limit, because nobody knows when they end
)

// held is what the requests of one sub-bucket hold together.
type held struct{ cost, count int64 }

// holds is what a pair holds, by the start of the sub-bucket in which each hold was made.
type holds map[int64]held

// An ending is what is charged for the holds of one sub-bucket when they end.
type ending struct{ at, cost int64 }

// rewind counts holds from after now as made now, because the clock went back.
func (h holds) rewind(now int64) {
	for start, some := range h {
		if start > begin(now, holdWidth) {
			delete(h, start)
			h.add(now, some)
		}
	}
}

// ended returns what has ended at now, in order.
func (h holds) ended(now int64) (ended []ending) {
	for _, start := range slices.Sorted(maps.Keys(h)) {
		if e := start + holdExpiry; e <= now {
			ended = append(ended, ending{e, h[start].cost})
		}
	}
	return ended
}

// drop drops what has ended at now.
func (h holds) drop(now int64) {
	maps.DeleteFunc(h, func(start int64, _ held) bool { return start+holdExpiry <= now })
}

// tidy forgets which states are kept for holds, once the pair has no holds.
func (p *pairState) tidy() {
	if len(p.holds) == 0 {
		clear(p.held)
	}
}

// end charges what pairs, and the pairs of asks, held in sub-buckets that have ended at now.
func (m *Model) end(now int64, asks []*ask, pairs []core.Pair) {
	for _, a := range asks {
		pairs = append(pairs, a.id.Pair)
	}
	for _, p := range pairs {
		ps := m.pair(p)
		ps.holds.rewind(now)
		ended := ps.holds.ended(now)
		for id, s := range m.states {
			if id.Pair == p {
				l, peek := limitFor(asks, id)
				s.end(l, peek, id.period, ps.held[id], now, ended)
			}
		}
		ps.holds.drop(now)
		ps.tidy()
	}
}

// limitFor returns the limit of the first ask for a state, and whether the ask is a peek. The limit is nil if no ask is
// for the state, or if its limit admits nothing.
func limitFor(asks []*ask, id stateID) (l *core.Limit, peek bool) {
	for _, a := range asks {
		switch {
		case a.id != id:
		case a.limit.Rate == 0:
			return nil, false
		default:
			return &a.limit, a.peek
		}
	}
	return nil, false
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

// release removes a request's hold from the sub-bucket of the instant at, and returns it. An expired hold is not found.
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

// Held returns the cost and the number of requests that a pair of rule and key holds, and whether it is banned at now.
func (m *Model) Held(now int64, rule, key string) (cost, count int64, banned bool) {
	p := m.pair(core.Pair{Rule: rule, Key: key})
	live := maps.Clone(p.holds)
	live.rewind(now)
	live.drop(now)
	sum := live.sum()
	return sum.cost, sum.count, p.banned > now
}

// inFlight is the state of a limit that counts holds: nothing is ever charged to it.
type inFlight struct{}

func (inFlight) rewind(core.Limit, int64)           {}
func (inFlight) name(core.Limit, bool, int64, bool) {}
func (inFlight) keep(core.Limit, int64)             {}
func (inFlight) forget()                            {}
func (inFlight) end(*core.Limit, bool, time.Duration, bool, int64, []ending) {
}
func (inFlight) charge(core.Limit, int64, int64)              {}
func (inFlight) refund(core.Limit, int64, int64, int64)       {}
func (inFlight) used(core.Limit, bool, int64, int64) *big.Rat { return new(big.Rat) }

func (inFlight) grant(core.Limit, int64, int64) (ends int64) { return 0 }
