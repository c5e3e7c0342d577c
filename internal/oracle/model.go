// Package oracle decides claims by the definitions of the four algorithms, in exact rational numbers. It is slow and has
// no clock, no lock and no memory bound: tests compare the stores with it, field by field.
//
// Waits are not computed but searched: each is the least number of microseconds after which its condition holds.
package oracle

import (
	"math/big"
	"sort"
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxWait is the longest wait that a result states, in microseconds.
const maxWait = 1 << 53

// A Model is a store whose clock is an argument: microseconds since the Unix epoch. The zero value is ready. Claims must
// be valid. It is not safe for concurrent use.
type Model struct {
	states map[stateID]state
	pairs  map[pair]*pairState
}

type pair struct{ rule, key string }

// A pairState is what a pair remembers whatever its limits are.
type pairState struct {
	holds  holds
	banned int64 // until this instant
	begins int64 // after the last reset: what was charged before is not given back
}

type stateID struct {
	pair
	algorithm core.Algorithm
	period    time.Duration
}

// A state is what a key has used of a limit, in requests.
type state interface {
	// rewind takes note that the clock went back before what the state remembers, if it did. It does so even for a claim
	// that is not charged: else denials would last until the clock is back where it was.
	rewind(l core.Limit, now int64)
	// name takes note at now of a Take that is no peek, whether or not it will be charged.
	name(l core.Limit, now int64)
	// used returns what counts at then, if nothing is charged from now until then.
	used(l core.Limit, peek bool, now, then int64) *big.Rat
	charge(l core.Limit, now, cost int64)
	refund(l core.Limit, now, at, cost int64)
}

// An ask is one limit of one claim in the course of a decision.
type ask struct {
	id    stateID
	pair  *pairState
	state state
	limit core.Limit
	claim int
	first bool // of the asks of its claim
	cost  int64
	asked *big.Rat // the cost of all claims that are decided as one
	peek  bool
	dry   bool
	hold  bool
	retry time.Duration
}

// Take decides claims at now and returns a result per claim and limit.
func (m *Model) Take(now int64, claims []core.Claim) []core.Result {
	asks := m.asks(claims)
	for _, a := range asks {
		a.pair.holds.advance(now)
		a.state.rewind(a.limit, now)
		if !a.peek {
			a.state.name(a.limit, now)
		}
	}
	admitted := decide(asks, now, false)
	if admitted {
		commit(asks, claims, now, false)
	}
	decide(asks, now, true)
	if admitted {
		commit(asks, claims, now, true)
	}
	var results []core.Result
	for _, a := range asks {
		results = append(results, a.result(now))
	}
	return results
}

// Refund gives back at now what a Take of claims at an earlier instant charged.
func (m *Model) Refund(now, at int64, claims []core.Claim) {
	for _, c := range claims {
		c.At, c.Final = time.UnixMicro(at), 0
		m.Settle(now, []core.Claim{c})
	}
}

// Reset forgets the keys of claims at now, but not what they hold.
func (m *Model) Reset(now int64, claims []core.Claim) {
	for _, c := range claims {
		p := pair{ruleName(c), c.Key}
		ps := m.pair(p)
		ps.begins, ps.banned = now, 0
		for id := range m.states {
			if id.pair == p {
				delete(m.states, id)
			}
		}
	}
}

func ruleName(c core.Claim) string {
	if c.Rule == "" {
		return "default"
	}
	return c.Rule
}

func (m *Model) asks(claims []core.Claim) (asks []*ask) {
	for i, c := range claims {
		for j, l := range c.Limits {
			id := stateID{pair{ruleName(c), c.Key}, l.Algorithm, l.Period}
			a := &ask{
				id: id, pair: m.pair(id.pair), state: m.state(id), limit: l, claim: i, first: j == 0, cost: int64(max(c.Cost, 1)),
				peek: c.Peek, dry: c.DryRun, hold: c.Hold && !c.Peek,
			}
			if l.Algorithm == core.InFlight {
				a.cost = 1
			}
			asks = append(asks, a)
		}
	}
	for _, a := range asks {
		a.asked = a.sum(asks)
	}
	return asks
}

func (m *Model) pair(p pair) *pairState {
	if m.pairs == nil {
		m.pairs = make(map[pair]*pairState)
	}
	if m.pairs[p] == nil {
		m.pairs[p] = &pairState{holds: holds{}}
	}
	return m.pairs[p]
}

// sum returns the cost that a decides for: that of all claims of its kind that may charge the same state.
func (a *ask) sum(asks []*ask) *big.Rat {
	sum := whole(a.cost)
	for _, b := range asks {
		if b != a && b.id == a.id && b.dry == a.dry && !a.peek && !b.peek {
			sum.Add(sum, whole(b.cost))
		}
	}
	return sum
}

func (m *Model) state(id stateID) state {
	if m.states == nil {
		m.states = make(map[stateID]state)
	}
	if m.states[id] == nil {
		switch id.algorithm {
		case core.TokenBucket:
			m.states[id] = &tokenBucket{level: new(big.Rat), tick: 1}
		case core.FixedWindow:
			m.states[id] = new(fixedWindow)
		case core.SlidingWindow:
			m.states[id] = slidingWindow{counts{}}
		case core.SlidingLog:
			m.states[id] = slidingLog{counts{}}
		case core.InFlight:
			m.states[id] = inFlight{}
		}
	}
	return m.states[id]
}

// decide decides the asks that are dry runs, or the others, and reports whether all fit.
func decide(asks []*ask, now int64, dry bool) bool {
	all := true
	for _, a := range asks {
		if a.dry == dry {
			a.retry = a.decide(now)
			all = all && a.retry == 0
		}
	}
	return all
}

// decide returns how long to wait until the cost fits, or Never.
func (a *ask) decide(now int64) time.Duration {
	free := new(big.Rat).Sub(a.capacity(), a.asked)
	if free.Sign() < 0 {
		return core.Never
	}
	retry := a.wait(now, free)
	if retry == 0 && a.used(now).Cmp(free.Sub(free, a.held())) > 0 {
		retry = hint * time.Microsecond
	}
	return max(retry, a.ban(now))
}

// used returns what is charged at now.
func (a *ask) used(now int64) *big.Rat { return a.state.used(a.limit, a.peek, now, now) }

// held returns what requests hold that have not ended.
func (a *ask) held() *big.Rat {
	if a.limit.Algorithm == core.InFlight {
		return whole(a.pair.holds.sum().count)
	}
	return whole(a.pair.holds.sum().cost)
}

// ban returns for how long the pair is banned.
func (a *ask) ban(now int64) time.Duration {
	return time.Duration(max(0, a.pair.banned-now)) * time.Microsecond
}

// commit charges or holds the claims that are dry runs, or the others, as far as all limits of the claim fit.
func commit(asks []*ask, claims []core.Claim, now int64, dry bool) {
	fits := make(map[int]bool)
	for _, a := range asks {
		before, known := fits[a.claim]
		fits[a.claim] = a.retry == 0 && (before || !known)
	}
	for _, a := range asks {
		switch {
		case a.dry != dry || a.peek || !fits[a.claim]:
		case !a.hold:
			a.state.charge(a.limit, now, a.cost)
		case a.first:
			a.pair.holds.add(now, held{saturated(0, int64(max(claims[a.claim].Cost, 1))), 1})
		}
	}
}

func (a *ask) capacity() *big.Rat { return whole(int64(a.limit.Capacity())) }

// wait returns how long after now at most target requests are in use.
func (a *ask) wait(now int64, target *big.Rat) time.Duration {
	micros := sort.Search(maxWait, func(w int) bool {
		return a.state.used(a.limit, a.peek, now, now+int64(w)).Cmp(target) <= 0
	})
	return time.Duration(micros) * time.Microsecond
}

func (a *ask) result(now int64) core.Result {
	r := core.Result{Rule: a.id.rule, Limit: a.limit, Allowed: a.retry == 0, RetryAfter: a.retry, DryRun: a.dry, At: time.UnixMicro(now)}
	free := new(big.Rat).Sub(a.capacity(), a.used(now))
	if left := atLeastZero(free); left < int64(a.limit.Capacity()) {
		r.RefillAfter = a.wait(now, whole(int64(a.limit.Capacity())-left-1))
		r.ResetAfter = a.wait(now, new(big.Rat))
	}
	least := a.ban(now)
	if a.held().Sign() > 0 {
		least = max(least, hint*time.Microsecond)
	}
	r.RefillAfter, r.ResetAfter = max(r.RefillAfter, least), max(r.ResetAfter, least)
	if a.ban(now) == 0 {
		r.Remaining = int(atLeastZero(free.Sub(free, a.held())))
	}
	return r
}

// atLeastZero returns x rounded down, or 0 if that is more.
func atLeastZero(x *big.Rat) int64 {
	if x.Sign() < 0 {
		return 0
	}
	return floor(x)
}
