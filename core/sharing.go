package core

import (
	"reflect"
	"slices"
	"sync"
	"weak"
)

// sharers are the limiters of this process that use WithStore or WithFallback: see WithStore.
var sharers registry

// A registry knows limiters until they have been garbage collected.
type registry struct {
	mu       sync.Mutex
	limiters []weak.Pointer[Limiter]
}

// add registers l with the given stores, unless there are errs already or a rule of l differs in its limits from the rule of the same
// name in another limiter with one of them: it returns errs and these.
func (g *registry) add(l *Limiter, errs []error, given ...Store) []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limiters = slices.DeleteFunc(g.limiters, func(p weak.Pointer[Limiter]) bool { return p.Value() == nil })
	known := false
	for _, s := range given {
		state := sharedBy(s)
		if state == nil {
			continue
		}
		known = true
		for _, p := range g.limiters {
			if other := p.Value(); other != nil && (sharedBy(other.store.store) == state || sharedBy(other.fallback.store) == state) {
				errs = append(errs, l.rules.Load().conflictsWith(other.rules.Load())...)
			}
		}
	}
	if known && allOf(errs...) == nil {
		g.limiters = append(g.limiters, weak.Make(l))
	}
	return errs
}

// sharedBy returns a value that is equal for stores that share their state: s itself, unless s says otherwise. It returns nil if
// a comparison does not tell: values of zero-size types are always equal, and pointers to them may be.
func sharedBy(s Store) any {
	var state any = s
	if v, ok := s.(interface{ SharedState() any }); ok {
		if own := v.SharedState(); reflect.ValueOf(own).Comparable() {
			state = own
		}
	}
	if !reflect.ValueOf(state).Comparable() { // nil is not comparable either
		return nil
	}
	t := reflect.TypeOf(state)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Size() == 0 {
		return nil
	}
	return state
}

// conflictsWith returns an error for each rule of s whose limits differ from the limits of the same rule in other.
func (s *ruleset) conflictsWith(other *ruleset) (errs []error) {
	for i := range s.rules {
		r := &s.rules[i]
		if o := other.byName[r.Name]; o != nil && !sameLimits(r.Limits, o.Limits) {
			errs = append(errs, inRule(r.Name, invalid("a limiter with the same store has a rule of this name with the limits %v, got %v; "+
				"use another name or Limiter.SetRules", o.Limits, r.Limits)))
		}
	}
	return errs
}

// sameLimits reports whether a and b, the limits of two rules, are the same in any order. No rule has a limit twice.
func sameLimits(a, b []Limit) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(l Limit) bool { return !slices.Contains(b, l) })
}
