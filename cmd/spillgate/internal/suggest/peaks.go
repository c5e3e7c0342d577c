package suggest

import (
	"maps"
	"slices"
)

// peaks count clients by the burst that they need.
type peaks struct {
	clients int
	counts  map[int]int
	sorted  []int // the bursts, largest first, as of the last call of largestFirst
}

func newPeaks(n int) []*peaks {
	all := make([]*peaks, n)
	for i := range all {
		all[i] = &peaks{counts: make(map[int]int)}
	}
	return all
}

func (p *peaks) add(burst int) {
	p.clients++
	p.counts[burst]++
}

func (p *peaks) largestFirst() []int {
	if len(p.sorted) != len(p.counts) {
		p.sorted = slices.SortedFunc(maps.Keys(p.counts), func(a, b int) int { return b - a })
	}
	return p.sorted
}

// above returns how many clients need more than a burst.
func (p *peaks) above(burst int) (n int) {
	for _, b := range p.largestFirst() {
		if b <= burst {
			break
		}
		n += p.counts[b]
	}
	return n
}

// least returns the least burst that at most n clients need more than.
func (p *peaks) least(n int) int {
	for _, b := range p.largestFirst() {
		if n -= p.counts[b]; n < 0 {
			return b
		}
	}
	return 1
}
