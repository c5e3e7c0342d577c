package oracle

import (
	"math"
	"math/big"
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/core"
)

// grants are what a state may use on top of its limit, in the order of their ends. They do not change what was used.
type grants []grant

// A grant counts n, which is negative if requests are taken away, until an instant.
type grant struct{ n, ends int64 }

// A state keeps few grants apart, and counts up to mostGranted until one instant.
const (
	keptGrants  = 60
	mostGranted = 1<<30 - 1
)

func (m *Model) grantsOf(id stateID) *grants {
	if m.grants == nil {
		m.grants = make(map[stateID]*grants)
	}
	if m.grants[id] == nil {
		m.grants[id] = new(grants)
	}
	return m.grants[id]
}

// grant gives the limits of s more requests, or takes them away.
func (m *Model) grant(now int64, s *core.Settlement) {
	for _, a := range m.asksOf(s) {
		if a.limit.Rate == 0 || a.limit.Algorithm == core.InFlight {
			continue
		}
		a.rewind(now)
		if ends := a.state.grant(a.limit, now, int64(s.Grant)); ends > 0 {
			a.grant.add(int64(s.Grant), ends)
		}
	}
}

// rewind adjusts the state of a and its grants if the clock went back. A grant for a window ends with it, and is forgotten
// when the next one begins. Any other grant ends at the latest one period from now.
func (a *ask) rewind(now int64) {
	a.state.rewind(a.limit, now)
	w, isWindow := a.state.(*fixedWindow)
	before, latest, later := *a.grant, now+a.limit.Period.Microseconds(), int64(0)
	if isWindow {
		latest = w.until
	}
	*a.grant = nil
	for _, g := range before {
		switch {
		case isWindow || g.ends > latest:
			later += g.n
		case g.ends > now:
			a.grant.add(g.n, g.ends)
		}
	}
	a.grant.add(later, latest)
}

// at returns what is granted at an instant.
func (g *grants) at(then int64) *big.Rat {
	sum := int64(0)
	for _, one := range *g {
		if then < one.ends {
			sum += one.n
		}
	}
	return whole(sum)
}

// add grants n until an instant.
func (g *grants) add(n, ends int64) {
	var sorted grants
	for _, one := range *g {
		switch {
		case one.ends < ends:
			sorted = append(sorted, one)
			continue
		case one.ends == ends:
			n += one.n
			continue
		case n != 0:
			sorted = append(sorted, grant{limited(n), ends})
			n = 0
		}
		sorted = append(sorted, one)
	}
	if n != 0 {
		sorted = append(sorted, grant{limited(n), ends})
	}
	if *g = sorted; len(sorted) > keptGrants {
		g.merge()
	}
}

// merge makes one of the two grants whose ends are closest. At no instant is more granted than before.
func (g *grants) merge() {
	closest, distance := 0, int64(math.MaxInt64)
	for i, one := range (*g)[:len(*g)-1] {
		if d := (*g)[i+1].ends - one.ends; d < distance {
			closest, distance = i, d
		}
	}
	first, last := (*g)[closest], (*g)[closest+1]
	n, ends := limited(first.n+last.n), first.ends
	if last.n < 0 { // until its end
		n, ends = min(n, last.n), last.ends
	}
	rest := append(grants(nil), (*g)[:closest]...)
	*g = append(rest, (*g)[closest+2:]...)
	if n != 0 {
		g.add(n, ends)
	}
}

func limited(n int64) int64 { return max(-mostGranted, min(n, mostGranted)) }

// A GrantStep is a step of a timeline of one pair: it makes a claim, gives back an earlier claim, or grants requests.
type GrantStep struct {
	After    time.Duration // since the step before; it may be negative
	Claim    core.Claim    // made, unless Grant is not 0; its limits are granted requests otherwise
	Grant    int
	GiveBack int // the index of the step whose claim is given back; -1 for none
}

// GrantSteps returns a random timeline with many grants. In some timelines, more than keptGrants are kept apart, and in others
// the clock steps back; these give nothing back, because a store may have dropped an empty state.
func GrantSteps(seed uint64) (steps []GrantStep) {
	r := rand.New(rand.NewPCG(seed, 1))
	tiers := [][]core.Limit{
		core.MustParseLimits("10/s;sliding-log"), core.MustParseLimits("10/s;sliding-window"), core.MustParseLimits("10/s;fixed-window"),
		core.MustParseLimits("10/s"), core.MustParseLimits("10/s;sliding-log, 20/2s;sliding-window;buckets=4, 15/3s;fixed-window, 9/2s;burst=12"),
		core.MustParseLimits("7/s;ban=3s, 0/s;sliding-log"),
	}
	limits := tiers[r.IntN(len(tiers))]
	goesBack, many := r.IntN(4) == 0, r.IntN(4) == 0
	for i := range 40 + 80*r.IntN(2) {
		s := GrantStep{GiveBack: -1, After: time.Duration(r.Int64N(400_000)) * time.Microsecond}
		if many {
			s.After = time.Duration(1+r.Int64N(9_000)) * time.Microsecond
		}
		if goesBack && r.IntN(8) == 0 {
			s.After = -s.After
		}
		s.Claim = core.Claim{Rule: "r", Key: "k", Limits: limits, Cost: []int{1, 1, 2, 5, 12, 30}[r.IntN(6)], Peek: r.IntN(3) == 0, Hold: r.IntN(8) == 0}
		switch verb := r.IntN(10); {
		case verb < 3 || many && verb < 8:
			s.Grant = []int{1, 2, 8, 30, -1, -2, -9, 1_000_000_000, -1_000_000_000}[r.IntN(9)]
			if many {
				s.Grant = 1 + r.IntN(9) - 4*r.IntN(2)
			}
		case verb < 5 && i > 0 && !goesBack:
			s.GiveBack = max(0, i-5) + r.IntN(min(i, 5))
		}
		steps = append(steps, s)
	}
	return steps
}
