package main

import (
	"runtime"
	"time"

	"github.com/spillgate/spillgate/bench/peers"
	"github.com/spillgate/spillgate/core"
)

// ample is a limit that no loop here exhausts.
var ample = peers.Limit{Rate: 100_000_000, Period: time.Minute}

// memoryStores lists what a memory row compares.
var memoryStores = []struct {
	role role
	open func(peers.Limit) *peers.Store
}{
	{ours, peers.Spillgate},
	{note, peers.SpillgateLimiter},
	{peer, peers.Sethvargo},
	{peer, peers.HTTPRate},
	{peer, peers.Ulule},
	{peer, peers.Throttled},
	{peer, peers.Echo},
	{peer, peers.XTime},
	{floor, peers.Clock},
	{floor, peers.Map},
}

// A crowd is how many keys there are and how they come.
type crowd struct {
	name string
	keys int
	mix  func(n int) mix
	most float64 // bound: the ratio to the fastest peer
}

var crowds = []crowd{
	{"one hot key", 1, uniform, 0.65},
	{"100,000 keys uniformly", 100_000, uniform, 0.5},
	{"1,000,000 keys by Zipf", 1_000_000, zipf, 0.7},
}

func memoryRows() (rows []*row) {
	for _, c := range crowds {
		rows = append(rows, &row{
			name: "memory, " + c.name, unit: perDecision, restGC: c.many(), open: c.serial,
			task:   "One claim of a token bucket, at the level of the store.",
			bounds: []bound{toBest(c.most), allocs(0)},
		})
	}
	for _, c := range crowds {
		rows = append(rows, &row{
			name: "memory in parallel, " + c.name, unit: perDecision, restGC: c.many(), open: c.parallel,
			task:   "The same from one goroutine per core; the time is that of the whole divided by all decisions.",
			bounds: []bound{toBest(0.7), atMost(spillgate, "spillgate, one core", 1)},
		})
	}
	return append(rows, &row{
		name: "memory, three limits on each of two keys", unit: perDecision, open: openManyLimits,
		task:   "Six limits in one decision, beside one limit in one decision. The peers take six decisions.",
		bounds: []bound{atMost(spillgate, "spillgate, one limit", 3), allocs(0)},
	})
}

// sequenceLength is how many keys a loop goes through before it starts over.
const sequenceLength = 1 << 20

func (c crowd) sequence(e *env, seed uint64) []string {
	keys := e.scale(c.keys)
	return sequence(c.mix(keys), min(e.scale(sequenceLength), 8*keys), seed)
}

// many reports whether the heap is so large that the collector would decide the row.
func (c crowd) many() bool { return c.keys > 1 }

// leavesOut reports whether an entry is not for this row: what a Limiter allocates, several hundred bytes for each
// decision, would be fresh memory each time while the collector rests.
func (c crowd) leavesOut(r role) bool { return r == note && c.many() }

func (c crowd) serial(e *env, f *field) error {
	keys := c.sequence(e, 1)
	for _, m := range memoryStores {
		if c.leavesOut(m.role) {
			continue
		}
		s := m.open(ample)
		f.onClose(s.Stop)
		s.Keys(e.scale(c.keys))
		f.add(s.Name, m.role, e.decisions(walk(s.Worker(), keys), admitted))
	}
	return nil
}

func (c crowd) parallel(e *env, f *field) error {
	for _, m := range memoryStores {
		if c.leavesOut(m.role) {
			continue
		}
		s := m.open(ample)
		f.onClose(s.Stop)
		s.Keys(e.scale(c.keys))
		loops := make([]loop, runtime.GOMAXPROCS(0))
		for i := range loops {
			loops[i] = walk(s.Worker(), c.sequence(e, uint64(i+1)))
		}
		f.add(s.Name, m.role, e.decisions(parallel(loops), admitted))
		if m.role == ours {
			f.add(s.Name+", one core", note, e.decisions(parallel(loops[:1]), admitted))
		}
	}
	return nil
}

// threeLimits are ample, in three periods.
var threeLimits = []peers.Limit{ample, {Rate: ample.Rate, Period: time.Minute / 2}, {Rate: ample.Rate, Period: time.Second}}

func openManyLimits(e *env, f *field) error {
	const keys = 1000
	order := sequence(uniform(keys), 8*keys, 1)
	add := func(s *peers.Store, r role, take peers.Take) {
		f.onClose(s.Stop)
		f.add(s.Name, r, e.decisions(walk(take, order), admitted))
	}
	var limits []core.Limit
	for _, l := range threeLimits {
		limits = append(limits, core.Every(l.Rate, l.Period))
	}
	many := peers.Claiming(spillgate, new(core.MemoryStore), []string{"ip", "user"}, limits)
	many.Keys(keys)
	add(many, ours, many.Worker())
	one := peers.Claiming("spillgate, one limit", new(core.MemoryStore), []string{"ip"}, limits[:1])
	one.Keys(keys)
	add(one, note, one.Worker())
	for _, open := range peers.InMemory {
		var takes []peers.Take
		var s *peers.Store
		for i := range 6 {
			s = open(threeLimits[i%3])
			f.onClose(s.Stop)
			takes = append(takes, s.Worker())
		}
		s.Name += ", six decisions"
		add(s, peer, all(takes))
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
