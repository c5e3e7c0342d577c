// Package oracle decides claims by the definitions of the four algorithms, in exact rational numbers.
//
//	var m oracle.Model
//	want := m.Take(now, claims) // what a store must report at now
//
// It is slow and has no clock, no lock and no memory bound: tests compare the stores with it, field by field. RunLeases simulates
// several processes that lease a key from it, with crashes and lost calls, and checks them.
//
// Waits are not computed but searched: each is the least number of microseconds after which its condition holds.
package oracle

import (
	"math/big"
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxWait is the longest wait that a result states, in microseconds.
const maxWait = 1 << 53

// A Model is a store whose clock is an argument: microseconds since the Unix epoch. The zero value is ready. Claims must
// be valid. It is not safe for concurrent use.
type Model struct {
	states map[stateID]state
	pairs  map[core.Pair]*pairState
	grants map[stateID]*grants
}

// A pairState is what a pair remembers regardless of its limits.
type pairState struct {
	holds  holds
	held   map[stateID]bool // states of limits that held claims have named since the pair last held nothing
	banned int64            // until this instant
	begins int64            // the instant after the last reset: charges made before it are not given back
}

type stateID struct {
	core.Pair
	algorithm core.Algorithm
	period    time.Duration
	calendar  core.Calendar
}

func stateOf(p core.Pair, l core.Limit) stateID {
	if l.Calendar.Unit == 0 {
		return stateID{Pair: p, algorithm: l.Algorithm, period: l.Period}
	}
	return stateID{Pair: p, algorithm: core.FixedWindow, calendar: l.In(l.Calendar.Zone).Calendar}
}

// A state is what a key has used of a limit, in requests.
type state interface {
	// rewind adjusts the state if the clock went back before the instants that it remembers. It does so even for a claim that is
	// not charged: otherwise denials would last until the clock is back where it was.
	rewind(l core.Limit, now int64)
	// name records the rate of a Take, whether or not the Take will be charged. If the pair holds something, name
	// records the rate even for a forgotten bucket.
	name(l core.Limit, peek bool, now int64, holds bool)
	// keep stores how l wants the state to be charged when a hold made at now ends.
	keep(l core.Limit, now int64)
	// end charges what ended holds become, each at its end. A state that no held claim has named is only charged if it
	// counts something at that instant. l is the limit that the call names, in a peek or not; if it is nil, the state
	// is charged by its own data.
	end(l *core.Limit, peek bool, period time.Duration, held bool, now int64, ended []ending)
	// forget forgets what was charged, but not what keep stored.
	forget()
	// used returns what counts at the instant then, if nothing is charged between now and then.
	used(l core.Limit, peek bool, now, then int64) *big.Rat
	charge(l core.Limit, now, cost int64)
	refund(l core.Limit, now, at, cost int64)
	// grant returns until when a grant of n at now counts on top of the limit, or 0 if it changes what was used.
	grant(l core.Limit, now, n int64) (ends int64)
}

// An ask is one limit of one claim in the course of a decision.
type ask struct {
	id    stateID
	pair  *pairState
	state state
	grant *grants
	limit core.Limit
	claim int
	first bool // the first ask of its claim
	cost  int64
	asked *big.Rat // the cost of all claims that are decided together
	peek  bool
	dry   bool
	hold  bool
	most  time.Duration // how long the request may wait for its turn
	retry time.Duration
	turn  time.Duration // how long the request waits for its turn, if retry is 0
}

// Take decides claims at now and returns a result per claim and limit.
func (m *Model) Take(now int64, claims []core.Claim) []core.Result {
	asks := m.asks(claims)
	m.end(now, asks, nil)
	for _, a := range asks {
		a.rewind(now)
		a.state.name(a.limit, a.peek, now, len(a.pair.holds) > 0)
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
		if !c.Peek {
			m.Settle(now, []core.Settlement{Settlement(c, time.UnixMicro(at))})
		}
	}
}

// Reset forgets what was charged to pairs at now, but not what they hold.
func (m *Model) Reset(now int64, pairs []core.Pair) {
	for _, p := range pairs {
		p = named(p.Rule, p.Key)
		ps := m.pair(p)
		ps.begins, ps.banned = now, 0
		ps.holds.drop(now)
		ps.tidy()
		for id, g := range m.grants {
			if id.Pair == p {
				*g = nil
			}
		}
		for id, s := range m.states {
			switch {
			case id.Pair != p:
			case ps.held[id]:
				s.forget()
			default:
				delete(m.states, id)
			}
		}
	}
}

func named(rule, key string) core.Pair {
	if rule == "" {
		rule = "default"
	}
	return core.Pair{Rule: rule, Key: key}
}

func (m *Model) asks(claims []core.Claim) (asks []*ask) {
	for i, c := range claims {
		for j, l := range c.Limits {
			id := stateOf(named(c.Rule, c.Key), l)
			a := &ask{
				id: id, pair: m.pair(id.Pair), state: m.state(id), limit: l, claim: i, first: j == 0, cost: int64(max(c.Cost, 1)),
				grant: m.grantsOf(id), peek: c.Peek, dry: c.DryRun, hold: c.Hold && !c.Peek, most: c.MaxWait,
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

func (m *Model) pair(p core.Pair) *pairState {
	if m.pairs == nil {
		m.pairs = make(map[core.Pair]*pairState)
	}
	if m.pairs[p] == nil {
		m.pairs[p] = &pairState{holds: holds{}, held: make(map[stateID]bool)}
	}
	return m.pairs[p]
}

// sum returns the cost that a decides for: the cost of all claims of its kind that may charge the same state.
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
			m.states[id] = &fixedWindow{calendar: id.calendar, grants: m.grantsOf(id)}
		case core.SlidingWindow:
			m.states[id] = &slidingWindow{counts: counts{}}
		case core.SlidingLog:
			m.states[id] = slidingLog{counts{}}
		case core.InFlight:
			m.states[id] = inFlight{}
		}
	}
	return m.states[id]
}
