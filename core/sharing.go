package core

import (
	"cmp"
	"hash/maphash"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"weak"
)

// limitersByStore has the limiters of this process that use WithStore. Limiters that share a store share the state of
// rules with the same name, so New returns an error if two of them give such a rule different limits.
var limitersByStore = registry{limiters: make(map[uint64][]weak.Pointer[Limiter]), seed: maphash.MakeSeed()}

// A registry finds the limiters of a store. It does not prevent the garbage collector from freeing limiters or stores.
type registry struct {
	mu       sync.Mutex
	limiters map[uint64][]weak.Pointer[Limiter] // by a hash of their stores
	seed     maphash.Seed
}

// add registers l with the given stores, unless a rule of l differs in its limits from the rule of the same name in
// another limiter. A limiter that is no longer used counts until it has been garbage collected.
func (g *registry) add(l *Limiter, given ...Store) (errs []error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range given {
		if key, ok := g.key(s); ok {
			errs = append(errs, g.conflicts(l, s, g.limiters[key])...)
		}
	}
	if len(errs) > 0 {
		return errs
	}
	for _, s := range given {
		if key, ok := g.key(s); ok {
			g.limiters[key] = append(g.limiters[key], weak.Make(l))
			runtime.AddCleanup(l, g.forget, key)
		}
	}
	return nil
}

// key returns the hash of what s shares. It reports false if that cannot be told apart from other stores by comparison:
// values of zero-size types are always equal, and pointers to them may be.
func (g *registry) key(s Store) (uint64, bool) {
	state := sharedBy(s)
	if state == nil || !reflect.ValueOf(state).Comparable() {
		return 0, false
	}
	t := reflect.TypeOf(state)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return maphash.Comparable(g.seed, state), t.Size() > 0
}

// sharedBy returns a value that is equal for stores that share their state: s itself, unless s says otherwise.
func sharedBy(s Store) any {
	if v, ok := s.(interface{ SharedState() any }); ok {
		if state := v.SharedState(); state != nil && reflect.ValueOf(state).Comparable() {
			return state
		}
	}
	return s
}

// share reports whether a and b share their state.
func (g *registry) share(a, b Store) bool {
	keyA, okA := g.key(a)
	keyB, okB := g.key(b)
	return okA && okB && keyA == keyB && sharedBy(a) == sharedBy(b)
}

// forget removes limiters that have been garbage collected.
func (g *registry) forget(key uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	live := slices.DeleteFunc(g.limiters[key], func(p weak.Pointer[Limiter]) bool { return p.Value() == nil })
	if g.limiters[key] = live; len(live) == 0 {
		delete(g.limiters, key)
	}
}

// conflicts returns an error for each rule of l whose limits differ from the limits of the same rule in another limiter
// with store s.
func (g *registry) conflicts(l *Limiter, s Store, others []weak.Pointer[Limiter]) (errs []error) {
	for _, p := range others {
		other := p.Value()
		if other == nil || !g.share(other.store.store, s) && !g.share(other.fallback.store, s) {
			continue
		}
		errs = append(errs, l.rules.Load().conflictsWith(other.rules.Load())...)
	}
	return errs
}

func (s *ruleset) conflictsWith(other *ruleset) (errs []error) {
	for i := range s.rules {
		r := &s.rules[i]
		if o := other.named(r.Name); o != nil && !slices.Equal(sorted(r.Limits), sorted(o.Limits)) {
			errs = append(errs, within(r.place(), invalid("a limiter with the same store has a rule of this name with the limits %v, got %v; "+
				"use another name or Limiter.SetRules", o.Limits, r.Limits)))
		}
	}
	return errs
}

// sorted sorts the few limits of a rule by insertion: an instance of slices.SortFunc would make programs 30 KB larger.
func sorted(limits []Limit) []Limit {
	s := slices.Clone(limits)
	for i := range s {
		for ; i > 0 && compare(&s[i], &s[i-1]) < 0; i-- {
			s[i], s[i-1] = s[i-1], s[i]
		}
	}
	return s
}

func compare(a, b *Limit) int {
	return cmp.Or(cmp.Compare(a.Algorithm, b.Algorithm), cmp.Compare(a.Period, b.Period), cmp.Compare(a.Calendar.Unit, b.Calendar.Unit),
		cmp.Compare(a.Calendar.Zone, b.Calendar.Zone), cmp.Compare(a.Calendar.From, b.Calendar.From))
}
