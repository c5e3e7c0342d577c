package oracle

import (
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

// A held is what requests with the same limits hold, made in the sub-bucket that begins at start.
type held struct {
	start, cost, count int64
	limits             []core.Limit // that will be charged when the hold ends
}

// holds is what a pair holds, in the order in which the pair held it first.
type holds []held

// sameCharge reports whether a charge to these limits changes the same states in the same way.
func sameCharge(a, b []core.Limit) bool {
	return slices.EqualFunc(a, b, func(a, b core.Limit) bool {
		same := stateOf(a) == stateOf(b) && a.Rate == b.Rate && a.Capacity() == b.Capacity() && a.Ban == b.Ban
		return same && (a.Algorithm != core.SlidingWindow || widthOf(a) == widthOf(b))
	})
}

// charged returns the limits that a held claim with these limits is charged to.
func charged(limits []core.Limit) []core.Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l core.Limit) bool { return l.Algorithm == core.InFlight || l.Rate == 0 })
}

// add adds a hold made at now.
func (h *holds) add(now int64, some held) {
	some.start = begin(now, holdWidth)
	for i := range *h {
		if other := &(*h)[i]; other.start == some.start && sameCharge(other.limits, some.limits) {
			other.cost = saturated(other.cost, some.cost)
			other.count += some.count
			return
		}
	}
	*h = append(*h, some)
}

// rewind counts holds from after now as made now, because the clock went back.
func (h *holds) rewind(now int64) {
	all := *h
	*h = nil
	for _, some := range all {
		h.add(min(some.start, now), some)
	}
}

// end charges what holds that have ended at now held: to the limits of their claims, in the order in which the holds ended.
func (p *pair) end(now int64) {
	p.holds.rewind(now)
	all := slices.Clone(p.holds)
	slices.SortStableFunc(all, func(a, b held) int { return int(a.start - b.start) })
	for _, some := range all {
		ends := some.start + holdExpiry
		for _, l := range some.limits {
			if ends <= now {
				p.state(stateOf(l)).charge(l, ends, some.cost)
			}
		}
	}
	p.holds = slices.DeleteFunc(p.holds, func(some held) bool { return some.start+holdExpiry <= now })
}

func (h holds) sum() (cost, count int64) {
	for _, some := range h {
		cost = saturated(cost, some.cost)
		count += some.count
	}
	return cost, count
}

// release removes a request's hold of these limits, made at an instant, and returns it. It does not find a hold that has ended. If the
// clock went back since, it takes the latest hold.
func (h *holds) release(at, cost int64, limits []core.Limit) (held, bool) {
	latest := -1
	for i, some := range *h {
		if sameCharge(some.limits, limits) && (latest < 0 || some.start > (*h)[latest].start) {
			latest = i
		}
	}
	if latest < 0 || at < 0 {
		return held{}, false
	}
	start := min(begin(at, holdWidth), (*h)[latest].start)
	i := slices.IndexFunc(*h, func(some held) bool { return some.start == start && sameCharge(some.limits, limits) })
	if i < 0 {
		return held{}, false
	}
	some := &(*h)[i]
	released := held{cost: min(cost, some.cost), count: 1, limits: some.limits}
	some.cost -= released.cost
	if some.count--; some.count == 0 {
		*h = slices.Delete(*h, i, i+1)
	}
	return released, true
}

// Held returns the cost and the number of requests that a pair of rule and key holds, and whether it is banned at now.
func (m *Model) Held(now int64, rule, key string) (cost, count int64, banned bool) {
	p := m.pair(core.Pair{Rule: rule, Key: key})
	live := slices.Clone(p.holds)
	live.rewind(now)
	cost, count = slices.DeleteFunc(live, func(some held) bool { return some.start+holdExpiry <= now }).sum()
	return cost, count, p.banned > now
}

// inFlight is the state of a limit that counts holds: nothing is ever charged to it.
type inFlight struct{}

func (inFlight) rewind(core.Limit, int64)                    {}
func (inFlight) used(core.Limit, int64, int64) *big.Rat      { return new(big.Rat) }
func (inFlight) charge(core.Limit, int64, int64)             {}
func (inFlight) refund(core.Limit, int64, int64, int64)      {}
func (inFlight) grant(core.Limit, int64, int64) (ends int64) { return 0 }

// endOfHold returns when a hold made at an instant ends.
func endOfHold(at time.Time) int64 { return begin(at.UnixMicro(), holdWidth) + holdExpiry }
