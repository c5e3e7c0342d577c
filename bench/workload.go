package main

import (
	"runtime"
	"sync"

	"github.com/spillgate/spillgate/bench/peers"
)

// name opens a store just to learn its name.
func (c contestant) name() string {
	s := c.open(ample)
	s.Stop()
	return s.Name
}

// A contestant opens a store of one library, or a baseline.
type contestant struct {
	role role
	open func(peers.Limit) *peers.Store
}

// A workload is how many keys there are and how they are drawn.
type workload struct {
	name string
	keys int
	mix  func(n int) mix
}

var workloads = []workload{
	{"one hot key", 1, uniform},
	{"100,000 keys", 100_000, uniform},
}

// sequenceLength is how many keys a loop goes through before it starts over.
const sequenceLength = 1 << 20

func (w workload) sequence(e *env, seed uint64) []string {
	keys := e.scale(w.keys)
	return sequence(w.mix(keys), min(e.scale(sequenceLength), 8*keys), seed)
}

// serial adds contestants that decide one after another on one goroutine.
func (w workload) serial(e *env, f *setup, all []contestant, l peers.Limit) error {
	keys := sync.OnceValue(func() []string { return w.sequence(e, 1) })
	for _, c := range all {
		f.addLater(c.name(), c.role, func() measure {
			s := c.open(l)
			f.onClose(s.Stop)
			s.Keys(e.scale(w.keys))
			return e.decisions(overKeys(s.Worker(), keys()), admitted)
		})
	}
	return nil
}

// parallel adds contestants that decide on one goroutine per core, and Spillgate again on a single one.
func (w workload) parallel(e *env, f *setup, all []contestant, l peers.Limit) error {
	for _, c := range all {
		onCores := func(n int) func() measure {
			return func() measure {
				s := c.open(l)
				f.onClose(s.Stop)
				s.Keys(e.scale(w.keys))
				loops := make([]loop, n)
				for i := range loops {
					loops[i] = overKeys(s.Worker(), w.sequence(e, uint64(i+1)))
				}
				return e.decisions(parallel(loops), admitted)
			}
		}
		name := c.name()
		f.addLater(name, c.role, onCores(runtime.GOMAXPROCS(0)))
		if c.role == ours {
			f.addLater(name+", one core", note, onCores(1))
		}
	}
	return nil
}

// sixLimits adds a store of Spillgate that decides six limits at once, and the peers, which make a decision for each:
// three limits, each for two keys. One peer also makes a single decision.
func (e *env) sixLimits(f *setup, limits []peers.Limit) {
	const keys = 1000
	order := sequence(uniform(keys), 8*keys, 1)
	f.addLater(spillgate, ours, func() measure {
		own := peers.SpillgateLimiterSix(limits)
		f.onClose(own.Stop)
		own.Keys(keys)
		return e.decisions(overKeys(own.Worker(), order), admitted)
	})
	f.addLater(throttledOnce, note, func() measure {
		return e.decisions(overKeys(peers.Throttled(limits[0]).Worker(), order), admitted)
	})
	for _, c := range takers() {
		if c.role != peer {
			continue
		}
		f.addLater(c.name()+", six decisions", peer, func() measure {
			var takes []peers.Take
			for i := range 2 * len(limits) {
				s := c.open(limits[i%len(limits)])
				f.onClose(s.Stop)
				takes = append(takes, s.Worker())
			}
			return e.decisions(overKeys(all(takes), order), admitted)
		})
	}
}

// all returns a Take that asks each of takes.
func all(takes []peers.Take) peers.Take {
	return func(key string) bool {
		for _, take := range takes {
			if !take(key) {
				return false
			}
		}
		return true
	}
}
