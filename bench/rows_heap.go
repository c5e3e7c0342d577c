package main

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/spillgate/spillgate/bench/peers"
)

// ample is a limit that remembers a key while the rows about the heap run.
var ample = peers.Limit{Rate: 100_000_000, Period: time.Minute}

func heapRows() []*row {
	return []*row{{
		name: "heap, 1,000,000 keys", unit: footprint, gc: gcRests, maxRounds: 2, open: openHeap,
		task:   "What a key costs on the heap after a million were seen, and the CPU time of a garbage collection then.",
		bounds: []bound{valueBelow(48), extraBelow(5)},
	}}
}

func openHeap(e *env, f *setup) error {
	for _, m := range takers() {
		f.add(m.name(), m.role, func() (sample, error) { return e.heap(m.open) })
	}
	f.add("no keys", baseline, func() (sample, error) { return sample{0, collect()}, nil })
	return nil
}

// heap fills a store that nothing else lives beside.
func (e *env) heap(open func(peers.Limit) *peers.Store) (sample, error) {
	n := max(e.scale(1_000_000), 30_000) // which takes more than what earlier rows may still release
	before := live()
	s := open(ample)
	s.Keys(n)
	after := live()
	gc := collect()
	runtime.KeepAlive(s)
	s.Stop()
	if after <= before {
		return nil, fmt.Errorf("the heap went from %.0f to %.0f bytes", before, after)
	}
	return sample{(after - before) / float64(n), gc}, nil
}

// live returns the bytes on the heap that are reachable. Objects with a finalizer, or of a goroutine
// that is about to end, need several collections.
func live() float64 {
	const settled = 1 << 14
	var m runtime.MemStats
	for range 10 {
		before := m.HeapAlloc
		runtime.GC()
		time.Sleep(time.Millisecond)
		runtime.ReadMemStats(&m)
		if before < m.HeapAlloc+settled && m.HeapAlloc < before+settled {
			break
		}
	}
	return float64(m.HeapAlloc)
}

// collect returns the CPU time of one garbage collection, in milliseconds: the mean of a few, unless they take long.
func collect() float64 {
	const most, enough = 5, 0.1
	before := gcSeconds()
	spent, n := 0.0, 0.0
	for n < most && spent < enough {
		runtime.GC()
		n++
		spent = gcSeconds() - before
	}
	return spent / n * 1000
}

func gcSeconds() float64 {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(s)
	return s[0].Value.Float64()
}
