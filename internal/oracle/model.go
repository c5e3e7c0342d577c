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
	begins map[pair]int64 // of a pair that was reset: what was charged before is not given back
}

type pair struct{ rule, key string }

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
	state state
	limit core.Limit
	claim int
	cost  int64
	asked *big.Rat // the cost of all claims that are decided as one
	peek  bool
	dry   bool
	retry time.Duration
}

// Take decides claims at now and returns a result per claim and limit.
func (m *Model) Take(now int64, claims []core.Claim) []core.Result {
	asks := m.asks(claims)
	for _, a := range asks {
		a.state.rewind(a.limit, now)
		if !a.peek {
			a.state.name(a.limit, now)
		}
	}
	admitted := decide(asks, now, false)
	if admitted {
		charge(asks, now, false)
	}
	decide(asks, now, true)
	if admitted {
		charge(asks, now, true)
	}
	var results []core.Result
	for _, a := range asks {
		results = append(results, a.result(now))
	}
	return results
}

// Refund gives back at now what a Take of claims at an earlier instant charged.
func (m *Model) Refund(now, at int64, claims []core.Claim) {
	for _, a := range m.asks(claims) {
		if !a.peek && at >= m.begins[a.id.pair] {
			a.state.refund(a.limit, now, at, min(a.cost, int64(a.limit.Capacity())))
		}
	}
}

// Reset forgets the keys of claims at now.
func (m *Model) Reset(now int64, claims []core.Claim) {
	if m.begins == nil {
		m.begins = make(map[pair]int64)
	}
	for _, c := range claims {
		p := pair{ruleName(c), c.Key}
		m.begins[p] = now
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
		for _, l := range c.Limits {
			id := stateID{pair{ruleName(c), c.Key}, l.Algorithm, l.Period}
			a := &ask{id: id, state: m.state(id), limit: l, claim: i, cost: int64(max(c.Cost, 1)), peek: c.Peek, dry: c.DryRun}
			asks = append(asks, a)
		}
	}
	for _, a := range asks {
		a.asked = a.sum(asks)
	}
	return asks
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
		}
	}
	return m.states[id]
}

// decide decides the asks that are dry runs, or the others, and reports whether all fit.
func decide(asks []*ask, now int64, dry bool) bool {
	all := true
	for _, a := range asks {
		if a.dry == dry {
			a.retry = core.Never
			if free := new(big.Rat).Sub(a.capacity(), a.asked); free.Sign() >= 0 {
				a.retry = a.wait(now, free)
			}
			all = all && a.retry == 0
		}
	}
	return all
}

// charge charges the claims that are dry runs, or the others, as far as all limits of the claim fit.
func charge(asks []*ask, now int64, dry bool) {
	fits := make(map[int]bool)
	for _, a := range asks {
		before, known := fits[a.claim]
		fits[a.claim] = a.retry == 0 && (before || !known)
	}
	for _, a := range asks {
		if a.dry == dry && !a.peek && fits[a.claim] {
			a.state.charge(a.limit, now, a.cost)
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
	free := new(big.Rat).Sub(a.capacity(), a.state.used(a.limit, a.peek, now, now))
	if free.Sign() > 0 {
		r.Remaining = int(floor(free))
	}
	if r.Remaining < a.limit.Capacity() {
		r.RefillAfter = a.wait(now, whole(int64(a.limit.Capacity()-r.Remaining-1)))
		r.ResetAfter = a.wait(now, new(big.Rat))
	}
	return r
}
