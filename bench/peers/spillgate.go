package peers

import (
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// storeTimeout is how long a decision may wait for its store: longer than a busy machine stalls, so that the fallback
// decides nothing.
const storeTimeout = 30 * time.Second

// core returns l as a core.Limit, a token bucket.
func (l Limit) core() core.Limit { return core.Every(l.Rate, l.Period) }

// SpillgateLimiter is Limiter.Take on top of a MemoryStore.
func SpillgateLimiter(l Limit) *Store { return Limiting("spillgate", new(core.MemoryStore), l) }

// SpillgateLimit is Limiter.Take of one limit on top of a MemoryStore.
func SpillgateLimit(name string, l core.Limit) *Store {
	limiter := core.Must(core.New([]core.Rule{l.By(keyfunc.RemoteIP)}))
	return shared(name, func(key string) bool {
		return admits(limiter.Take(background, core.Claim{Rule: "default", Key: key}))
	})
}

// MaxWait is Limiter.Take by a rule whose requests may wait for their turn.
func MaxWait(l Limit) *Store {
	rule := core.Rule{Limits: cores([]Limit{l}), MaxWait: time.Minute}
	limiter := core.Must(core.New([]core.Rule{rule}))
	return shared("spillgate, MaxWait", func(key string) bool {
		return admits(limiter.Take(background, core.Claim{Rule: "default", Key: key}))
	})
}

// SpillgateLimiterSix is Limiter.Take of two claims, each of which has all of limits.
func SpillgateLimiterSix(limits []Limit) *Store {
	return LimitingSix("spillgate", new(core.MemoryStore), limits)
}

// Limiting is Limiter.Take on top of s.
func Limiting(name string, s core.Store, l Limit) *Store {
	return limiting(name, s, []Limit{l}, []string{"default"}, func(l *core.Limiter, key string) bool {
		return admits(l.Take(background, core.Claim{Rule: "default", Key: key}))
	})
}

// LimitingSix is Limiter.Take, on top of s, of two claims, each of which has all of limits.
func LimitingSix(name string, s core.Store, limits []Limit) *Store {
	return limiting(name, s, limits, []string{"ip", "user"}, func(l *core.Limiter, key string) bool {
		return admits(l.Take(background, core.Claim{Rule: "ip", Key: key}, core.Claim{Rule: "user", Key: key}))
	})
}

// admits reports whether the store has admitted a request. It does not keep the decision, so Take allocates nothing for it.
func admits(d core.Decision, err error) bool { return d.Allowed && d.Degraded == nil && err == nil }

// limiting returns a store that asks a limiter on top of s, which has a rule of each name.
func limiting(name string, s core.Store, limits []Limit, names []string, ask func(*core.Limiter, string) bool) *Store {
	var rules []core.Rule
	var half []core.Claim
	for _, rule := range names {
		rules = append(rules, core.Rule{Name: rule, Key: keyfunc.RemoteIP, Limits: cores(limits)})
		half = append(half, core.Claim{Rule: rule, Cost: smallest(limits) / 2})
	}
	limiter := core.Must(core.New(rules, core.WithStore(s), core.WithTimeout(storeTimeout)))
	store := shared(name, func(key string) bool { return ask(limiter, key) })
	// A key whose bucket has drained is no different from one never seen, and is dropped when others come.
	store.Fill = func(key string) {
		for i := range half {
			half[i].Key = key
		}
		_, _ = limiter.Take(background, half...)
	}
	return store
}

// cores returns limits as core.Limits.
func cores(limits []Limit) (all []core.Limit) {
	for _, l := range limits {
		all = append(all, l.core())
	}
	return all
}

// smallest returns the lowest rate of limits.
func smallest(limits []Limit) int {
	n := limits[0].Rate
	for _, l := range limits {
		n = min(n, l.Rate)
	}
	return n
}
