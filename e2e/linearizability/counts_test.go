package linearizability

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// If periods are so long that elapsed time makes no difference, the state of a store is how much of each limit each key
// has used, and it does not matter when calls took effect: in the model, all happen at one instant. This model can also
// explain calls with an unknown outcome: they happened or they did not.
//
// This model excludes two calls, whose instants make a difference: a refund of a charge from before a reset, and a
// refund of a token bucket. The latter leaves the part of the charge that may have drained in the meantime, so after a
// few of them the bucket counts slightly more than is used.
const anInstant = 1_800_000_000_000_000

// counts records how much of each limit of each key is used, and what each key holds.
type counts struct {
	used  [8]int8
	pairs [2]pairCount
}

// A pairCount is the part of a key's counts that does not depend on limits.
type pairCount struct {
	held, holds int8 // the cost, and by how many claims
	banned      bool
}

// Final costs of held requests may raise usage above a limit, but not above this bound.
const mostUsed = 20

// A counting is the specification of a plan whose state is counts.
type counting struct {
	plan
	name string
}

// known caches the results of the model, which is slow, across histories.
var known = make(map[countsStep]countsResult)

type countsStep struct {
	limits string
	from   counts
	op     string
}

type countsResult struct {
	to      counts
	results []core.Result
}

func (p plan) counting(name string, _ []porcupine.Operation) porcupine.Model {
	s := &counting{plan: p, name: name}
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{counts{}} },
		Step: func(state, input, output any) []any {
			before, out := state.(counts), output.(outcome)
			after := s.play(before, input.(*op))
			switch {
			case out.lost:
				return []any{before, after.to}
			case alike(out.results, after.results):
				return []any{after.to}
			}
			return nil
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " ->", output) },
	}
	return m.ToModel()
}

// hint is the RetryAfter of a request that is denied because of holds.
const hint = time.Second

// alike reports whether results are equal apart from what depends on elapsed time.
func alike(got, want []core.Result) bool {
	if len(got) != len(want) {
		return false
	}
	for i, g := range got {
		w := want[i]
		if g.Rule != w.Rule || g.Limit != w.Limit || g.Allowed != w.Allowed || g.Remaining != w.Remaining || g.DryRun != w.DryRun ||
			(g.RetryAfter == core.Never) != (w.RetryAfter == core.Never) || (g.RetryAfter > 0) != (w.RetryAfter > 0) ||
			(g.RetryAfter == hint) != (w.RetryAfter == hint) {
			return false
		}
	}
	return true
}

// play returns what o does to a store with these counts.
func (s *counting) play(from counts, o *op) countsResult {
	step := countsStep{fmt.Sprint(s.limits), from, o.String()}
	if r, ok := known[step]; ok {
		return r
	}
	var r countsResult
	m := s.modelOf(from, o)
	switch o.verb {
	case "take":
		r.results = m.Take(anInstant, o.claims)
	case "settle":
		_ = m.Settle(anInstant, madeNow(o.settlements))
	case "reset":
		m.Reset(anInstant, []core.Pair{o.pair})
	}
	r.to = s.countsOf(m, o, from)
	known[step] = r
	return r
}

// madeNow returns settlements of what was taken at the one instant.
func madeNow(settlements []core.Settlement) []core.Settlement {
	settlements = slices.Clone(settlements)
	for i := range settlements {
		settlements[i].At = time.UnixMicro(anInstant)
	}
	return settlements
}

func (s *counting) keysOf(o *op) map[int]string {
	keys := make(map[int]string)
	for _, key := range o.keys() {
		keys[keyNumber(key)] = key
	}
	return keys
}

func (s *counting) modelOf(c counts, o *op) *oracle.Model {
	var m oracle.Model
	for k, key := range s.keysOf(o) {
		pair := c.pairs[k]
		for i := range pair.holds {
			hold := core.Claim{Rule: "rule", Key: key, Limits: s.limits, Hold: true, Cost: 1} // they fit together, or would not be held
			if i == 0 {
				hold.Cost = int(pair.held - pair.holds + 1)
			}
			m.Take(anInstant, []core.Claim{hold})
		}
		for n, l := range s.limits {
			used := int(c.used[k*len(s.limits)+n])
			_ = m.Settle(anInstant, []core.Settlement{{Rule: "rule", Key: key, Limits: []core.Limit{l}, Held: true, Final: used}})
		}
		if pair.banned {
			_ = m.Settle(anInstant, []core.Settlement{{Rule: "rule", Key: key, Ban: aBan}})
		}
	}
	return &m
}

// countsOf returns c with the counts of a model for the keys in o. It releases the holds, which would be charged when
// they end, and reads the usage once all bans have ended.
func (s *counting) countsOf(m *oracle.Model, o *op, c counts) counts {
	for k, key := range s.keysOf(o) {
		held, holds, banned := m.Held(anInstant, "rule", key)
		c.pairs[k] = pairCount{int8(held), int8(holds), banned}
		for range holds {
			_ = m.Settle(anInstant, []core.Settlement{{Rule: "rule", Key: key, Limits: s.limits, At: time.UnixMicro(anInstant), Cost: int(held), Held: true}})
		}
		for n, l := range s.limits {
			if l.Algorithm == core.InFlight {
				continue
			}
			l.Rate = mostUsed
			claim := core.Claim{Rule: "rule", Key: key, Limits: []core.Limit{l}, Peek: true}
			r := m.Take(anInstant+2*aBan.Microseconds(), []core.Claim{claim})[0]
			c.used[k*len(s.limits)+n] = int8(mostUsed - r.Remaining)
		}
	}
	return c
}
