package suggest

import (
	"maps"
	"math"
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

// least returns the smallest burst that is enough for all but at most n clients.
func (p *peaks) least(n int) int {
	for _, b := range p.largestFirst() {
		if n -= p.counts[b]; n < 0 {
			return b
		}
	}
	return 1
}

// A Gap separates the clients that need the largest bursts from all others.
type Gap struct {
	Clients int `json:"clients"` // beyond the gap; 0 if there is no gap
	Above   int `json:"above"`   // the smallest burst that one of them needs
	Below   int `json:"below"`   // the largest burst that any other client needs
}

const (
	maxBeyond = 20 // at most one client in maxBeyond is beyond a gap
	minRatio  = 2  // clients beyond a gap need more than minRatio times the burst of all others
)

// gap returns the gap with the largest ratio of the bursts above and below. Ratios, not differences, show which clients
// stand out: of 10000, 3000, 2900, 20 and 19, the first three do.
func (p *peaks) gap() (g Gap) {
	widest, beyond := float64(minRatio), 0
	for i, below := range p.largestFirst() {
		if i > 0 {
			above := p.sorted[i-1]
			if beyond += p.counts[above]; beyond*maxBeyond > p.clients {
				break
			}
			if ratio := float64(above) / float64(below); ratio > widest {
				widest, g = ratio, Gap{beyond, above, below}
			}
		}
	}
	return g
}

// burst returns a burst in the gap: twice the largest burst below the gap, because further clients may need more than
// these few, but at most the geometric mean of both ends of the gap.
func (g Gap) burst() int {
	return min(2*g.Below, int(math.Sqrt(float64(g.Above)*float64(g.Below))))
}

// excess returns the sum by which the bursts that clients need exceed a burst.
func (p *peaks) excess(burst int) (sum int) {
	for _, b := range p.largestFirst() {
		sum += max(0, b-burst) * p.counts[b]
	}
	return sum
}
