package main

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/bench/peers"
)

// loadSlices is how many slices of a loop one slice under load takes, because latencies need more time to show.
const loadSlices = 10

// A caller makes one decision after another and records how long each takes.
type caller struct {
	take  peers.Take
	keys  []string
	next  int
	took  []uint32 // nanoseconds
	wrong int      // decisions other than the row requires
}

func (c *caller) run(done *atomic.Bool, want decision) {
	c.took = c.took[:0]
	for len(c.took) == 0 || !done.Load() { // a busy machine may begin late
		key := c.keys[c.next%len(c.keys)]
		c.next++
		start := time.Now()
		ok := c.take(key)
		c.took = append(c.took, uint32(min(time.Since(start), 4*time.Second)))
		if ok != (want == admitted) {
			c.wrong++
		}
	}
}

var errWrong = errors.New("some decisions were wrong, or none was made")

// A reading makes a sample of the durations of all decisions, in nanoseconds and in ascending order, and of the time that
// the slice took.
type reading func(took []uint32, elapsed time.Duration) sample

// load returns a measure of callers that all use s at the same time, each with keys in an order of its own. It warms s up.
func (e *env) load(s *peers.Store, callers int, m mix, want decision, read reading) func() (sample, error) {
	all := make([]*caller, callers)
	for i := range all {
		all[i] = &caller{take: s.Worker(), keys: sequence(m, 1024, uint64(i))}
	}
	e.burst(all, e.slice, want)
	return func() (sample, error) {
		took, elapsed := e.burst(all, loadSlices*e.slice, want)
		for _, c := range all {
			if c.wrong > 0 {
				return nil, errWrong
			}
		}
		if len(took) == 0 {
			return nil, errWrong
		}
		return read(took, elapsed), nil
	}
}

// burst lets all callers run for a while and returns the durations of all decisions, in ascending order.
func (e *env) burst(all []*caller, length time.Duration, want decision) (took []uint32, elapsed time.Duration) {
	var done atomic.Bool
	var wg sync.WaitGroup
	start := time.Now()
	for _, c := range all {
		wg.Go(func() { c.run(&done, want) })
	}
	time.Sleep(length)
	done.Store(true)
	wg.Wait()
	elapsed = time.Since(start)
	for _, c := range all {
		took = append(took, c.took...)
	}
	slices.Sort(took)
	return took, elapsed
}

// throughput reads decisions per second, and the 99th percentile in microseconds.
func throughput(took []uint32, elapsed time.Duration) sample {
	return sample{float64(len(took)) / elapsed.Seconds(), percentile(took, 99)}
}

// typical reads the median and the 99th percentile, in microseconds.
func typical(took []uint32, _ time.Duration) sample {
	return sample{percentile(took, 50), percentile(took, 99)}
}

// counted returns a reading of how many decisions there were, followed by the numbers of read.
func counted(read reading) reading {
	return func(took []uint32, elapsed time.Duration) sample {
		return append(sample{float64(len(took))}, read(took, elapsed)...)
	}
}

// percentile returns a percentile of times, which are in ascending order, in microseconds.
func percentile(took []uint32, p int) float64 { return float64(took[len(took)*p/100]) / 1000 }
