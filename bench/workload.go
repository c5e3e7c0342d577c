package main

import (
	"runtime"

	"github.com/spillgate/spillgate/bench/peers"
)

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
	keys := w.sequence(e, 1)
	for _, c := range all {
		s := c.open(l)
		f.onClose(s.Stop)
		s.Keys(e.scale(w.keys))
		f.add(s.Name, c.role, e.decisions(overKeys(s.Worker(), keys), admitted))
	}
	return nil
}

// parallel adds contestants that decide on one goroutine per core, and Spillgate again on a single one.
func (w workload) parallel(e *env, f *setup, all []contestant, l peers.Limit) error {
	for _, c := range all {
		s := c.open(l)
		f.onClose(s.Stop)
		s.Keys(e.scale(w.keys))
		loops := make([]loop, runtime.GOMAXPROCS(0))
		for i := range loops {
			loops[i] = overKeys(s.Worker(), w.sequence(e, uint64(i+1)))
		}
		f.add(s.Name, c.role, e.decisions(parallel(loops), admitted))
		if c.role == ours {
			f.add(s.Name+", one core", note, e.decisions(parallel(loops[:1]), admitted))
		}
	}
	return nil
}

// sixLimits adds a store of Spillgate that decides six limits at once, and the peers, which make a decision for each:
// three limits, each for two keys.
func (e *env) sixLimits(f *setup, limits []peers.Limit, own *peers.Store) error {
	const keys = 1000
	order := sequence(uniform(keys), 8*keys, 1)
	own.Keys(keys)
	f.onClose(own.Stop)
	f.add(own.Name, ours, e.decisions(overKeys(own.Worker(), order), admitted))
	for _, open := range peers.InMemory {
		var takes []peers.Take
		name := ""
		for i := range 2 * len(limits) {
			s := open(limits[i%len(limits)])
			f.onClose(s.Stop)
			takes = append(takes, s.Worker())
			name = s.Name + ", six decisions"
		}
		f.add(name, peer, e.decisions(overKeys(all(takes), order), admitted))
	}
	return nil
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
