package oracle

import (
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A BookingStep is a step of a timeline of requests that may wait for their turns: it makes a claim, gives back an
// earlier claim, or bans.
type BookingStep struct {
	After    time.Duration // since the step before; it may be negative
	Claim    core.Claim    // made if it has limits
	GiveBack int           // the index of the step whose claim is given back, if this step has neither a claim nor a ban
	Ban      time.Duration // of the pair
}

// BookingSteps returns a random timeline of one pair, in ticks of 1 µs, 1 ms or 1 s. In some timelines requests name
// two rates. In others the clock steps back; these give nothing back, because a store may have dropped an empty state.
func BookingSteps(seed uint64) (steps []BookingStep) {
	r := rand.New(rand.NewPCG(seed, 0))
	tiers := [][]core.Limit{[][]core.Limit{
		core.MustParseLimits("5/s"), core.MustParseLimits("1/s;burst=3"), core.MustParseLimits("10/3h"), core.MustParseLimits("1000000/d"),
		{core.Every(999_983, 3650*24*time.Hour-time.Millisecond)}, core.MustParseLimits("3/s;burst=1, 100/m;burst=2"),
		{core.Every(1_000_000, 9_007_199_254*time.Microsecond)}, // a full bucket is nearly as much as whole numbers can count
	}[r.IntN(7)]}
	l, goesBack := tiers[0][0], r.IntN(4) == 0
	if r.IntN(3) == 0 {
		other := l
		other.Rate = max(1, l.Rate/2)
		tiers = append(tiers, []core.Limit{other})
	}
	each := l.Period.Microseconds() / int64(l.Rate)
	some := func(most int64) time.Duration { return time.Duration(1+r.Int64N(most)) * time.Microsecond }
	for i := range 40 {
		s := BookingStep{After: some(2*each) - time.Microsecond}
		if goesBack && i > 0 && r.IntN(8) == 0 {
			s.After -= some(3 * each)
		}
		switch verb := r.IntN(20); {
		case i > 0 && verb < 7 && !goesBack:
			s.GiveBack = max(0, i-5) + r.IntN(min(i, 5))
		case i > 0 && verb < 9:
			s.Ban = some(5 * each)
		default:
			s.Claim = core.Claim{Rule: "r", Key: "k", Limits: tiers[r.IntN(len(tiers))], MaxWait: min(time.Hour, some(20*each)), Peek: r.IntN(10) == 0}
			s.Claim.Cost = []int{1, 1, 2, l.Capacity()}[r.IntN(4)]
			if i == 0 {
				s.Claim.Cost = l.Capacity()
			}
		}
		steps = append(steps, s)
	}
	return steps
}
