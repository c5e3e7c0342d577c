package linear

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// Where periods are so long that time plays no role, the state of a store is how much is used of each limit of each key,
// and it does not matter when calls took effect: the model has all of them happen at one instant. Then calls of an
// unknown outcome can be explained as well: they happened or they did not.
//
// Two things are beyond this model, because the instants make a difference. A refund of what was charged before a reset
// is one. The other are refunds of a token bucket: each leaves what may have drained of the charge meanwhile, so that after
// a few of them it counts a little more than what is used.
const anInstant = 1_800_000_000_000_000

// counts is how much is used of each limit of each key.
type counts [8]int8

// A counting is the specification of a plan in terms of counts.
type counting struct {
	plan
	name string
}

// known remembers what the model said, for all histories: it takes its time.
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

// counting returns the specification of a history of p.
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

// alike reports whether results are the same but for what elapsed time makes of them.
func alike(got, want []core.Result) bool {
	if len(got) != len(want) {
		return false
	}
	for i, g := range got {
		w := want[i]
		if g.Rule != w.Rule || g.Limit != w.Limit || g.Allowed != w.Allowed || g.Remaining != w.Remaining || g.DryRun != w.DryRun ||
			(g.RetryAfter == core.Never) != (w.RetryAfter == core.Never) || (g.RetryAfter > 0) != (w.RetryAfter > 0) {
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
	case "refund":
		m.Refund(anInstant, anInstant, o.claims)
	case "reset":
		m.Reset(anInstant, o.claims)
	}
	r.to = s.countsOf(m, o, from)
	known[step] = r
	return r
}

// each calls f for each limit of each key in o, with its place in counts.
func (s *counting) each(o *op, f func(i int, c core.Claim)) {
	for k := range s.keys {
		key := fmt.Sprintf("%s:%d", s.name, k)
		if !slices.ContainsFunc(o.claims, func(c core.Claim) bool { return c.Key == key }) {
			continue
		}
		for n, l := range s.limits {
			f(k*len(s.limits)+n, core.Claim{Rule: "rule", Key: key, Limits: []core.Limit{l}})
		}
	}
}

// modelOf returns a model of the keys in o.
func (s *counting) modelOf(c counts, o *op) *oracle.Model {
	var m oracle.Model
	s.each(o, func(i int, claim core.Claim) {
		if claim.Cost = int(c[i]); c[i] > 0 {
			m.Take(anInstant, []core.Claim{claim})
		}
	})
	return &m
}

// countsOf returns c with what a model says of the keys in o.
func (s *counting) countsOf(m *oracle.Model, o *op, c counts) counts {
	s.each(o, func(i int, claim core.Claim) {
		claim.Peek = true
		r := m.Take(anInstant, []core.Claim{claim})[0]
		c[i] = int8(r.Limit.Capacity() - r.Remaining)
	})
	return c
}
