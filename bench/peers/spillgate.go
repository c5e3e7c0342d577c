package peers

import (
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// storeTimeout is how long a decision may wait for its store: longer than a busy machine stalls, so that the fallback decides nothing.
const storeTimeout = 30 * time.Second

// core returns l as a core.Limit, a token bucket.
func (l Limit) core() core.Limit { return core.Every(l.Rate, l.Period) }

// Spillgate is a MemoryStore, called as its limiter calls it: with claims and results that are used again.
func Spillgate(l Limit) *Store { return SpillgateOf(l, 0) }

// SpillgateOf is Spillgate with room for a number of keys; 0 is its default, a million.
func SpillgateOf(l Limit, maxKeys int) *Store {
	return Claiming("spillgate", &core.MemoryStore{MaxKeys: maxKeys}, []string{"default"}, []core.Limit{l.core()})
}

// SpillgateLimiter is Limiter.Take on top of a MemoryStore.
func SpillgateLimiter(l Limit) *Store { return Limiting("spillgate", new(core.MemoryStore), l) }

// SpillgateLimiterSix is Limiter.Take of two claims, each of which has all of limits.
func SpillgateLimiterSix(limits []Limit) *Store {
	return LimitingSix("spillgate", new(core.MemoryStore), limits)
}

// Limiting is Limiter.Take on top of s.
func Limiting(name string, s core.Store, l Limit) *Store {
	return limiting(name, s, []Limit{l}, []string{"default"}, func(l *core.Limiter, key string) (core.Decision, error) {
		return l.Take(background, core.Claim{Rule: "default", Key: key})
	})
}

// LimitingSix is Limiter.Take, on top of s, of two claims, each of which has all of limits.
func LimitingSix(name string, s core.Store, limits []Limit) *Store {
	return limiting(name, s, limits, []string{"ip", "user"}, func(l *core.Limiter, key string) (core.Decision, error) {
		return l.Take(background, core.Claim{Rule: "ip", Key: key}, core.Claim{Rule: "user", Key: key})
	})
}

func limiting(name string, s core.Store, limits []Limit, names []string, ask func(*core.Limiter, string) (core.Decision, error)) *Store {
	var rules []core.Rule
	var claims []core.Claim
	for _, rule := range names {
		rules = append(rules, core.Rule{Name: rule, Key: keyfunc.RemoteIP, Limits: cores(limits)})
		claims = append(claims, core.Claim{Rule: rule, Limits: cores(limits)})
	}
	limiter := core.Must(core.New(rules, core.WithStore(s), core.WithTimeout(storeTimeout)))
	store := shared(name, func(key string) bool {
		d, err := ask(limiter, key)
		return d.Allowed && d.Degraded == nil && err == nil
	})
	store.Fill = filler(s, claims)
	return store
}

// cores returns limits as core.Limits.
func cores(limits []Limit) (all []core.Limit) {
	for _, l := range limits {
		all = append(all, l.core())
	}
	return all
}

// Claiming takes from s, in one decision, the key under each of rules, with all of limits.
func Claiming(name string, s core.Store, rules []string, limits []core.Limit) *Store {
	claims := make([]core.Claim, len(rules))
	for i, rule := range rules {
		claims[i] = core.Claim{Rule: rule, Limits: limits}
	}
	worker := func() Take {
		claims := append([]core.Claim(nil), claims...)
		dst := make([]core.Result, 0, len(rules)*len(limits))
		return func(key string) bool {
			for i := range claims {
				claims[i].Key = key
			}
			results, err := s.Take(background, claims, dst[:0])
			return err == nil && allowed(results)
		}
	}
	return &Store{Name: name, Worker: worker, Fill: filler(s, claims)}
}

func allowed(results []core.Result) bool {
	for i := range results {
		if !results[i].Allowed {
			return false
		}
	}
	return true
}

// filler returns a Fill that uses up half of each key's capacity: a key whose bucket has drained is no different from
// one never seen, and is dropped when others come.
func filler(s core.Store, claims []core.Claim) func(string) {
	claims = append([]core.Claim(nil), claims...)
	var dst []core.Result
	return func(key string) {
		for i := range claims {
			claims[i].Key = key
			claims[i].Cost = smallest(claims[i].Limits) / 2
		}
		dst, _ = s.Take(background, claims, dst[:0])
	}
}

func smallest(limits []core.Limit) int {
	capacity := limits[0].Capacity()
	for _, l := range limits {
		capacity = min(capacity, l.Capacity())
	}
	return capacity
}
