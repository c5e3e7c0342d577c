package linear

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// A decision says the instant at which it was made. So where periods are short, each decision has to be, field by field,
// what the model decides at that instant, and decisions take effect in the order of their instants: only equal ones, and
// where refunds and resets belong, is left to search for. A reset happens right after the decision before it. Only calls whose
// outcome is known can be explained, and no refund of a token bucket, which depends on its own instant.

// An instants is the state of a store as the calls that made it so.
type instants struct {
	text   string // of the events
	events []event
	takes  int           // among them
	next   int64         // the first instant at which a decision may follow
	model  *oracle.Model // nil: made from the events when it is needed
}

// An event is a call that may have changed the state, and when it was made.
type event struct {
	*op
	at int64
}

// timed returns the specification of a history of p.
func (p plan) timed(_ string, history []porcupine.Operation) porcupine.Model {
	earlier := earlierTakes(history)
	return porcupine.Model{
		Init: func() any { return new(instants) },
		Step: func(state, input, output any) (bool, any) {
			before, o, out := state.(*instants), input.(*op), output.(outcome)
			switch {
			case o.verb == "reset":
				return true, before.and(event{o, before.next + 1}, 0)
			case o.verb != "take":
				return true, before.and(event{o, before.next}, 0)
			case before.takes < earlier[o] || out.at().UnixMicro() < before.next:
				return false, nil
			}
			e := event{o, out.at().UnixMicro()}
			m := before.takeModel()
			if !slices.Equal(e.happenTo(m), inMicroseconds(out.results)) {
				return false, nil
			}
			after := before.and(e, 1)
			after.model = m
			return true, after
		},
		Equal:             func(a, b any) bool { return a.(*instants).text == b.(*instants).text },
		DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " ->", output) },
	}
}

// inMicroseconds returns results whose instants have no monotonic reading, as those of the model.
func inMicroseconds(results []core.Result) []core.Result {
	all := slices.Clone(results)
	for i := range all {
		all[i].At = time.UnixMicro(all[i].At.UnixMicro())
	}
	return all
}

// earlierTakes returns how many takes of a history were decided before each.
func earlierTakes(history []porcupine.Operation) map[*op]int {
	earlier := make(map[*op]int)
	for _, a := range history {
		for _, b := range history {
			if b.Input.(*op).verb == "take" && before(b, a) {
				earlier[a.Input.(*op)]++
			}
		}
	}
	return earlier
}

// before reports whether a was decided before b.
func before(a, b porcupine.Operation) bool {
	x, y := a.Output.(outcome), b.Output.(outcome)
	return len(x.results) > 0 && len(y.results) > 0 && x.at().Before(y.at())
}

// and returns s with an event, which is one of so many takes.
func (s *instants) and(e event, takes int) *instants {
	after := &instants{events: append(slices.Clip(s.events), e), takes: s.takes + takes, next: e.at}
	after.text = fmt.Sprintf("%s %p", s.text, e.op)
	return after
}

// takeModel returns a model to which all of s has happened. It is the caller's to change, and the next caller gets another.
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
	case "refund":
		m.Refund(e.at, e.claims[0].At.UnixMicro(), e.claims)
	case "reset":
		m.Reset(e.at, e.claims)
	}
	return nil
}
