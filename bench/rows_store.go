package main

import (
	"time"

	"github.com/spillgate/spillgate/bench/peers"
	"github.com/spillgate/spillgate/core"
)

// ample is a limit that no loop here exhausts.
var ample = peers.Limit{Rate: 100_000_000, Period: time.Minute}

const inParallel = "The same from one goroutine per core; the time is that of the whole divided by all decisions."

// stores lists the contestants of the rows about the store alone.
func stores() []contestant {
	list := takers()
	list[0].open = peers.Spillgate
	return append(list, contestant{baseline, peers.Clock}, contestant{baseline, peers.Map})
}

// storeRows compare MemoryStore.Take, called as a Limiter calls it, with the functions of other libraries that takeRows uses.
func storeRows() (rows []*row) {
	most := map[string]float64{"one hot key": 0.92, "100,000 keys": 0.52, "1,000,000 keys by Zipf": 0.7}
	for _, w := range workloads {
		rows = append(rows, &row{
			name: "MemoryStore.Take, " + w.name, unit: perDecision, gc: w.gc(),
			task:   "One claim of a token bucket.",
			open:   func(e *env, f *setup) error { return w.serial(e, f, stores(), ample) },
			bounds: []bound{toBest(most[w.name]), allocs(0)},
		})
	}
	for _, w := range workloads {
		rows = append(rows, &row{
			name: "MemoryStore.Take in parallel, " + w.name, unit: perDecision, gc: w.gc(), task: inParallel,
			open:   func(e *env, f *setup) error { return w.parallel(e, f, stores(), ample) },
			bounds: []bound{toBest(0.7), atMost(spillgate, "spillgate, one core", 1)},
		})
	}
	return append(rows, &row{
		name: "MemoryStore.Take, three limits on each of two keys", unit: perDecision, open: openStoreMany,
		task:   "Six limits in one decision, beside one limit in one decision. The peers take six decisions.",
		bounds: []bound{atMost(spillgate, "spillgate, one limit", 3), allocs(0)},
	})
}

// gc keeps the collector out of rows with a large heap.
func (w workload) gc() gcMode {
	if w.keys > 1 {
		return gcRests
	}
	return gcRuns
}

func openStoreMany(e *env, f *setup) error {
	limits := []peers.Limit{ample, {Rate: ample.Rate, Period: time.Minute / 2}, {Rate: ample.Rate, Period: time.Second}}
	var all []core.Limit
	for _, l := range limits {
		all = append(all, core.Every(l.Rate, l.Period))
	}
	if err := e.sixLimits(f, limits, peers.Claiming(spillgate, new(core.MemoryStore), []string{"ip", "user"}, all)); err != nil {
		return err
	}
	one := workload{keys: 1000, mix: uniform}
	return one.serial(e, f, []contestant{{note, func(l peers.Limit) *peers.Store {
		return peers.Claiming("spillgate, one limit", new(core.MemoryStore), []string{"ip"}, all[:1])
	}}}, ample)
}
