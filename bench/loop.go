package main

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/spillgate/spillgate/bench/peers"
)

// A loop makes n decisions and returns how many of them admitted.
type loop func(n int) (admitted int)

// overKeys returns a loop over keys. Successive calls go on where the last one stopped.
func overKeys(take peers.Take, keys []string) loop {
	i := 0
	return func(n int) (admitted int) {
		for range n {
			if take(keys[i]) {
				admitted++
			}
			if i++; i == len(keys) {
				i = 0
			}
		}
		return admitted
	}
}

// inTurn returns a loop that asks for each key several times before it asks for the next one.
func inTurn(take peers.Take, keys []string, times int) loop {
	i, left := 0, times
	return func(n int) (admitted int) {
		for range n {
			if take(keys[i]) {
				admitted++
			}
			if left--; left > 0 {
				continue
			}
			left = times
			if i++; i == len(keys) {
				i = 0
			}
		}
		return admitted
	}
}

// parallel returns a loop that divides its decisions among loops, which run concurrently.
func parallel(loops []loop) loop {
	return func(n int) (admitted int) {
		counts := make([]int, len(loops))
		var wg sync.WaitGroup
		for i, l := range loops {
			wg.Go(func() { counts[i] = l((n + i) / len(loops)) })
		}
		wg.Wait()
		for _, c := range counts {
			admitted += c
		}
		return admitted
	}
}

// A decision is the one result that a row requires of all decisions of a loop. A contestant that decides otherwise does
// other work.
type decision int

const (
	admitted decision = iota
	denied
)

// decisions returns a measure of l: nanoseconds, allocations and bytes allocated per decision.
func (e *env) decisions(l loop, want decision) measure {
	n := 0
	return func() (sample, error) {
		if n == 0 {
			n = e.calibrate(l)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := e.clock()
		countFromHere()
		got := l(n)
		countToHere()
		elapsed := e.clock() - start
		runtime.ReadMemStats(&after)
		if got != (map[decision]int{admitted: n, denied: 0})[want] {
			return nil, fmt.Errorf("admitted %d of %d", got, n)
		}
		per := float64(n)
		return sample{
			float64(elapsed.Nanoseconds()) / per,
			float64(after.Mallocs-before.Mallocs) / per,
			float64(after.TotalAlloc-before.TotalAlloc) / per,
		}, nil
	}
}

// calibrate returns how many decisions of l, an even number, fill a slice, but at least two. It warms l up.
func (e *env) calibrate(l loop) int {
	if e.operations > 0 {
		return e.operations
	}
	n := 2
	for !e.quick {
		start := e.clock()
		l(n)
		if took := e.clock() - start; took > e.slice/4 {
			return max(2, int(float64(n)*float64(e.slice)/float64(took))&^1)
		}
		n *= 2
	}
	return n
}
