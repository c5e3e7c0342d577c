package telemetry

import (
	"errors"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Buckets are the upper bounds of the histogram of store calls, inclusive. One more bucket, without a bound, follows.
var Buckets = []time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, time.Second,
}

// maxBuckets is the number of Buckets plus one.
const maxBuckets = 13

// storeCalls counts the calls of stores.
type storeCalls struct {
	buckets  [maxBuckets]atomic.Uint64
	total    atomic.Int64 // nanoseconds
	failures atomic.Uint64
}

// count counts the store call of o.
func (s *storeCalls) count(o *core.Observation) {
	i, _ := slices.BinarySearch(Buckets, o.Store)
	s.buckets[i].Add(1)
	s.total.Add(int64(o.Store))
	if errors.Is(o.Err, core.ErrUnavailable) || o.Outcome == nil && o.Degraded != nil { // it failed or was late
		s.failures.Add(1)
	}
}

// calls returns the calls of the stores and their health.
func (t *Telemetry) calls() (s Store) {
	s = Store{Duration: time.Duration(t.store.total.Load()), Failures: t.store.failures.Load()}
	for i := range t.store.buckets {
		s.Calls = append(s.Calls, t.store.buckets[i].Load())
	}
	for _, l := range t.Limiters() {
		h := l.StoreHealth()
		s.Down = s.Down || h.Down
		s.Overloads += h.Overloads
		if h.Since.After(s.Since) {
			s.Since = h.Since
		}
		if h.Err != nil {
			s.Err = h.Err
		}
	}
	return s
}

// kept returns how many keys, leases and held claims the stores of the attached limiters have. A store that several
// limiters use counts once.
func (t *Telemetry) kept() (keys Keys, leases Leases, held int) {
	inMemory := true
	stores := t.stores()
	for _, s := range stores {
		if m, ok := s.(interface{ Stats() core.MemoryStats }); ok {
			stats := m.Stats()
			keys.Own, keys.Shared, held = keys.Own+stats.Keys, keys.Shared+stats.Shared, held+stats.Held
		} else {
			inMemory = false
		}
		if r, ok := s.(interface{ LeaseStats() core.LeaseStats }); ok {
			stats := r.LeaseStats()
			leases.Keys += stats.Keys
			leases.Decisions += stats.Decisions
			leases.Returned += stats.Returned
		}
	}
	if !inMemory || len(stores) == 0 {
		held = int(max(0, t.holds.held.Load()))
	}
	return keys, leases, held
}

// stores returns the stores of the attached limiters, each once.
func (t *Telemetry) stores() (all []core.Store) {
	for _, l := range t.Limiters() {
		s := l.Store()
		if !reflect.ValueOf(s).Comparable() || !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
