package peers

import (
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// core returns l in the words of Spillgate: a token bucket.
func (l Limit) core() core.Limit { return core.Every(l.Rate, l.Period) }

// Spillgate is a MemoryStore, called as its limiter calls it: with claims and results that are used again.
func Spillgate(l Limit) *Store { return SpillgateOf(l, 0) }

// SpillgateOf is Spillgate with room for a number of keys; 0 is its default, a million.
func SpillgateOf(l Limit, maxKeys int) *Store {
	return Claiming("spillgate", &core.MemoryStore{MaxKeys: maxKeys}, []string{"default"}, []core.Limit{l.core()})
}

// SpillgateLimiter is a Limiter on top of a MemoryStore, with all that a decision carries for its caller.
func SpillgateLimiter(l Limit) *Store { return Limiting("spillgate Limiter", new(core.MemoryStore), l) }

// Limiting is a Limiter on top of s.
func Limiting(name string, s core.Store, l Limit) *Store {
	limiter := core.Must(core.New([]core.Rule{l.core().By(keyfunc.RemoteIP)}, core.WithStore(s), core.WithTimeout(time.Second)))
	store := shared(name, func(key string) bool {
		d, err := limiter.Take(background, core.Claim{Key: key})
		return d.Allowed && d.Degraded == nil && err == nil
	})
	store.Fill = filler(s, []core.Claim{{Rule: "default", Limits: []core.Limit{l.core()}}})
	return store
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
			_, results, err := s.Take(background, claims, dst[:0])
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
		_, dst, _ = s.Take(background, claims, dst[:0])
	}
}

func smallest(limits []core.Limit) int {
	capacity := limits[0].Capacity()
	for _, l := range limits {
		capacity = min(capacity, l.Capacity())
	}
	return capacity
}
