// Package oracle decides claims by the definitions of the four algorithms, in exact rational numbers.
//
//	var m oracle.Model
//	want := m.Take(now, claims) // what a store must report at now
//
// It is slow and has no clock, no lock and no memory bound. Compare, CompareRandom and CompareRare compare a store with it, field by field.
// RunLeases simulates several processes that lease a key from it, with crashes and lost calls, and checks them.
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
	pairs map[core.Pair]*pair
}

// A pair is what the model remembers of a rule and a key.
type pair struct {
	states map[stateID]state
	grants []grant
	holds  holds
	banned int64 // until this instant
	reset  int64 // the instant after the last reset: charges made before it are not given back
}

// A stateID names a state of a pair. Limits that differ only in their rate, burst, buckets or ban have the same state.
type stateID struct {
	algorithm core.Algorithm
	period    time.Duration
	calendar  core.Calendar
}

func stateOf(l core.Limit) stateID {
	if l.Calendar.Unit == 0 {
		return stateID{algorithm: l.Algorithm, period: l.Period}
	}
	return stateID{algorithm: core.FixedWindow, calendar: l.In(l.Calendar.Zone).Calendar}
}

// A state is what a key has used of the limits with one stateID, in requests. Only charge, refund and grant change what is used, and
// only they forget what no longer counts: a peek or a denied request writes nothing but the repair that rewind makes.
type state interface {
	// rewind repairs what lies after now, because the clock went back.
	rewind(l core.Limit, now int64)
	// used returns how much of l is used at the instant then, if nothing is charged between now and then.
	used(l core.Limit, now, then int64) *big.Rat
	charge(l core.Limit, now, cost int64)
	// refund gives back cost, charged at an earlier instant, as far as it still counts.
	refund(l core.Limit, now, at, cost int64)
	// grant returns until when a grant of n at now counts. A state that keeps grants itself returns 0.
	grant(l core.Limit, now, n int64) (ends int64)
}

// An ask is one limit of one claim in the course of a decision.
type ask struct {
	rule  string
	id    stateID
	pair  *pair
	state state
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

	behind time.Duration // how long the request waits for siblings of other rates
}

// Take decides claims at now and returns a result per claim and limit.
func (m *Model) Take(now int64, claims []core.Claim) []core.Result {
	asks := m.open(now, claims)
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
			_ = m.Settle(now, []core.Settlement{Settlement(c, time.UnixMicro(at))}) // only grants fail
		}
	}
}

// Reset forgets what was charged to pairs up to now, but not what they hold.
func (m *Model) Reset(now int64, pairs []core.Pair) {
	for _, name := range pairs {
		p := m.pair(name)
		p.end(now)
		*p = pair{states: make(map[stateID]state), holds: p.holds, reset: now + 1}
	}
}

func named(rule, key string) core.Pair {
	if rule == "" {
		rule = "default"
	}
	return core.Pair{Rule: rule, Key: key}
}

// open brings the pairs of claims to now and returns an ask for each limit of each claim.
func (m *Model) open(now int64, claims []core.Claim) []*ask {
	for _, c := range claims {
		p := m.pair(core.Pair{Rule: c.Rule, Key: c.Key})
		p.end(now)
		for _, l := range c.Limits {
			p.rewindGrants(l, now)
			p.state(stateOf(l)).rewind(l, now)
		}
	}
	return m.asks(claims)
}

func (m *Model) asks(claims []core.Claim) (asks []*ask) {
	for i, c := range claims {
		name, p := named(c.Rule, c.Key), m.pair(core.Pair{Rule: c.Rule, Key: c.Key})
		for j, l := range c.Limits {
			a := &ask{
				rule: name.Rule, id: stateOf(l), pair: p, state: p.state(stateOf(l)), limit: l, claim: i, first: j == 0, cost: int64(max(c.Cost, 1)),
				peek: c.Peek, dry: c.DryRun, hold: c.Hold && !c.Peek, most: c.MaxWait,
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

func (m *Model) pair(name core.Pair) *pair {
	if m.pairs == nil {
		m.pairs = make(map[core.Pair]*pair)
	}
	name = named(name.Rule, name.Key)
	if m.pairs[name] == nil {
		m.pairs[name] = &pair{states: make(map[stateID]state)}
	}
	return m.pairs[name]
}

// sum returns the cost that a decides for: the cost of all claims of its kind that may charge the same state.
func (a *ask) sum(asks []*ask) *big.Rat {
	sum := whole(a.cost)
	for _, b := range asks {
		if b != a && b.pair == a.pair && b.id == a.id && b.dry == a.dry && !a.peek && !b.peek {
			sum.Add(sum, whole(b.cost))
		}
	}
	return sum
}

func (p *pair) state(id stateID) state {
	if p.states[id] == nil {
		switch id.algorithm {
		case core.TokenBucket:
			p.states[id] = tokenBucket{}
		case core.FixedWindow:
			p.states[id] = &fixedWindow{calendar: id.calendar}
		case core.SlidingWindow:
			p.states[id] = slidingWindow{}
		case core.SlidingLog:
			p.states[id] = slidingLog{}
		case core.InFlight:
			p.states[id] = inFlight{}
		}
	}
	return p.states[id]
}
