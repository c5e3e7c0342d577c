package linearizability

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// A decision carries its instant. So if periods are short, each decision must equal the model's decision at that instant, field by field,
// and decisions take effect in the order of their instants. The search only has to find the order of equal instants, and the places of
// refunds and resets. A reset happens right after the decision before it. Calls with an unknown outcome cannot be explained, nor can
// refunds of a token bucket, which depend on their own instants.
//
// A memory store reads the clock for a token bucket before it waits for the lock. If the state is charged in the meantime, the decision
// gets the instant of that charge. If another decision reads the state in the meantime and leaves it unchanged, nothing shows that it was
// made at a later instant. So with plan.ahead, only the instants of a key's charges are in order.

// An instants represents the state of a store as the sequence of calls that led to it.
type instants struct {
	text   string // of the events
	events []event
	next   [8]int64      // by key: the earliest instant of a further decision
	model  *oracle.Model // nil: made from the events when it is needed
}

// An event is a call that may have changed the state, with its instant.
type event struct {
	*op
	at int64
}

// timed returns the specification of a history of p.
func (p plan) timed(_ string, history []porcupine.Operation) porcupine.Model {
	earlier := p.earlierTakes(history)
	return porcupine.Model{
		Init: func() any { return new(instants) },
		Step: func(state, input, output any) (bool, any) {
			before, o, out := state.(*instants), input.(*op), output.(outcome)
			next := before.nextOf(o.keys())
			switch {
			case o.verb == "reset":
				return true, before.and(event{o, next + 1}, o.keys())
			case o.verb != "take":
				return true, before.and(event{o, next}, nil)
			case !before.hasAll(earlier[o]) || out.at().UnixMicro() < next:
				return false, nil
			}
			e := event{o, out.at().UnixMicro()}
			m := before.takeModel()
			if !slices.Equal(e.happenTo(m), inMicroseconds(out.results)) {
				return false, nil
			}
			after := before.and(e, p.ordered(o, out))
			after.model = m
			return true, after
		},
		Equal:             func(a, b any) bool { return a.(*instants).text == b.(*instants).text },
		DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " ->", output) },
	}
}

// ordered returns the keys for which no decision with an earlier instant may follow a take.
func (p plan) ordered(o *op, out outcome) (keys []string) {
	if p.ahead {
		for _, s := range oracle.Charged(o.claims, out.results) {
			keys = append(keys, s.Key)
		}
		return keys
	}
	for k := range p.keys {
		keys = append(keys, fmt.Sprintf(":%d", k))
	}
	return keys
}

// nextOf returns the earliest instant at which calls about keys may take effect.
func (s *instants) nextOf(keys []string) (next int64) {
	for _, key := range keys {
		next = max(next, s.next[keyNumber(key)])
	}
	return next
}

// inMicroseconds returns results without monotonic clock readings, like the model's results.
func inMicroseconds(results []core.Result) []core.Result {
	all := slices.Clone(results)
	for i := range all {
		all[i].At = time.UnixMicro(all[i].At.UnixMicro())
	}
	return all
}

// earlierTakes returns, for each take of a history, the takes that must come before it by their instants.
func (p plan) earlierTakes(history []porcupine.Operation) map[*op][]*op {
	earlier := make(map[*op][]*op)
	for _, a := range history {
		for _, b := range history {
			x, y := a.Output.(outcome), b.Output.(outcome)
			if len(x.results) == 0 || len(y.results) == 0 || !y.at().Before(x.at()) {
				continue
			}
			if o, late := b.Input.(*op), a.Input.(*op); sameKey(p.ordered(o, y), p.ordered(late, x)) {
				earlier[late] = append(earlier[late], o)
			}
		}
	}
	return earlier
}

// sameKey reports whether a key is in both.
func sameKey(a, b []string) bool {
	for _, x := range a {
		if slices.ContainsFunc(b, func(y string) bool { return keyNumber(x) == keyNumber(y) }) {
			return true
		}
	}
	return false
}

// hasAll reports whether all of these have happened.
func (s *instants) hasAll(some []*op) bool {
	for _, o := range some {
		if !slices.ContainsFunc(s.events, func(e event) bool { return e.op == o }) {
			return false
		}
	}
	return true
}

// and returns s with an event. No earlier decision of these keys may follow it.
func (s *instants) and(e event, ordered []string) *instants {
	after := &instants{events: append(slices.Clip(s.events), e), next: s.next}
	for _, key := range ordered {
		after.next[keyNumber(key)] = max(s.next[keyNumber(key)], e.at)
	}
	after.text = fmt.Sprintf("%s %p", s.text, e.op)
	return after
}

// takeModel returns a model on which all events of s were played. The caller may change it; the next caller gets another one.
func (s *instants) takeModel() *oracle.Model {
	m := s.model
	if s.model = nil; m != nil {
		return m
	}
	m = new(oracle.Model)
	for _, e := range s.events {
		e.happenTo(m)
	}
	return m
}

// happenTo makes e happen to m and returns the results of a take.
func (e event) happenTo(m *oracle.Model) []core.Result {
	switch e.verb {
	case "take":
		return m.Take(e.at, e.claims)
	case "settle":
		_ = m.Settle(e.at, slices.Clone(e.settlements))
	case "reset":
		m.Reset(e.at-1, []core.Pair{e.pair}) // what is charged at e.at is charged after it
	}
	return nil
}
