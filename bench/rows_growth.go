package main

import (
	"fmt"

	"github.com/spillgate/spillgate/bench/peers"
)

// sizes are the numbers of keys that growth is measured at.
var sizes = []int{1_000, 10_000, 100_000, 1_000_000, 5_000_000}

func growthRows() []*row {
	smallest, largest := sizes[0], sizes[len(sizes)-1]
	return []*row{{
		name: "growth, 1,000 to 5,000,000 keys", unit: perDecision, gc: gcRests, open: openGrowth,
		task:   "Keys uniformly. What the map look-up loses to cache misses is not held against a limiter.",
		bounds: []bound{flat(smallest, largest, 1.5)},
	}}
}

func sized(name string, keys int) string { return fmt.Sprintf("%s, %d keys", name, keys) }

func openGrowth(e *env, f *setup) error {
	for _, size := range sizes {
		n := e.scale(size)
		keys := sequence(uniform(n), min(e.scale(sequenceLength), 8*n), 1)
		add := func(s *peers.Store, r role) {
			s.Keys(n)
			f.add(sized(s.Name, size), r, e.decisions(overKeys(s.Worker(), keys), admitted))
		}
		add(peers.SpillgateOf(ample, 2*sizes[len(sizes)-1]), ours)
		add(peers.Map(ample), baseline)
	}
	return nil
}

// flat requires that a decision with the most keys takes at most factor times as long as one with the fewest, plus what
// the map look-up grows by.
func flat(fewest, most int, factor float64) bound {
	return func(o *outcome) check {
		base, end := o.get(sized(spillgate, fewest))[0], o.get(sized(spillgate, most))[0]
		misses := max(0, o.get(sized("sharded map", most))[0]-o.get(sized("sharded map", fewest))[0])
		ratio := (end - misses) / base
		return check{
			bound: fmt.Sprintf("flat within %.1f× apart from the cache misses of the map", factor),
			got:   fmt.Sprintf("%.2f× (%.2f× with them; the map loses %.0f ns)", ratio, end/base, misses),
			holds: ratio <= factor,
		}
	}
}
