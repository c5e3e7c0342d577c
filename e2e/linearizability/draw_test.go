package linearizability

import (
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// aBan is longer than a history takes.
const aBan = time.Hour

func (c *caller) next() *op {
	ends := 2
	if c.holds {
		ends = 4
	}
	switch n := c.random.IntN(10); {
	case n == 0 && c.resets:
		return &op{verb: "reset", pair: core.Pair{Rule: "rule", Key: c.key()}}
	case n == 0 && c.bans || n == 1 && c.bans:
		return &op{verb: "settle", settlements: []core.Settlement{{Rule: "rule", Key: c.key(), Ban: aBan}}}
	case n <= ends && (c.refunds || c.holds) && len(c.takes) > 0:
		return c.settle()
	case n < 6:
		return &op{verb: "take", claims: []core.Claim{c.claim(), c.claim()}}
	}
	return &op{verb: "take", claims: []core.Claim{c.claim()}}
}

func (c *caller) key() string { return fmt.Sprintf("%s:%d", c.name, c.random.IntN(c.keys)) }

// claim draws a claim. Requests in flight can only be held.
func (c *caller) claim() core.Claim {
	claim := core.Claim{
		Rule: "rule", Key: c.key(), Limits: c.limits, Cost: c.random.IntN(3),
		Peek: c.random.IntN(6) == 0, DryRun: c.random.IntN(8) == 0,
	}
	if c.holds && !claim.Peek {
		inFlight := slices.ContainsFunc(c.limits, func(l core.Limit) bool { return l.Algorithm == core.InFlight })
		claim.Hold = inFlight || c.random.IntN(3) > 0
	}
	return claim
}

// settle draws a take that has not been settled, and its final cost. It may be renewed instead.
func (c *caller) settle() *op {
	i := c.random.IntN(len(c.takes))
	take := c.takes[i]
	c.takes = slices.Delete(c.takes, i, i+1)
	if renewed := c.renewed(take); len(renewed) > 0 {
		return &op{verb: "settle", settlements: renewed}
	}
	for i := range take {
		s := &take[i]
		switch s.Renew = false; {
		case s.Held:
			s.Final = c.random.IntN(max(s.Cost, 1) + 2)
		case !c.refunds:
			s.Final = max(s.Cost, 1)
		}
	}
	return &op{verb: "settle", settlements: take}
}

// renewed returns renewals of what a take held, or none.
func (c *caller) renewed(take []core.Settlement) (some []core.Settlement) {
	if c.random.IntN(4) > 0 {
		return nil
	}
	for _, s := range take {
		if s.Held {
			s.Renew = true
			some = append(some, s)
		}
	}
	return some
}
