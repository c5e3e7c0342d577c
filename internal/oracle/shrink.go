package oracle

import (
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// shrink returns the text of a short timeline in which store and model differ, which they do in steps. It leaves out and simplifies steps
// as long as they still differ, for some seconds.
func shrink(open func() Subject, steps []Step) string {
	all, begun := len(steps), time.Now()
	try := func(next []Step) bool {
		if time.Since(begun) > 10*time.Second {
			return false
		}
		n, failed := play(open(), next)
		if failed {
			steps = next[:n]
		}
		return failed
	}
	try(steps)
	for before := -1; before != weight(steps); {
		before = weight(steps)
		for i := len(steps) - 1; i >= 0; i-- {
			if i >= len(steps) {
				continue
			}
			without := slices.Delete(slices.Clone(steps), i, i+1)
			if later := slices.Clone(without); i < len(later) { // so that the others stay at their instants
				later[i].After += steps[i].After
				if try(later) {
					continue
				}
			}
			try(without)
		}
		for i := range steps {
			for _, simpler := range simplified(steps[min(i, len(steps)-1)]) {
				if i < len(steps) {
					next := slices.Clone(steps)
					next[i] = simpler
					try(next)
				}
			}
		}
	}
	_, text := playAll(open(), steps)
	return fmt.Sprintf("store and model differ, in %d of %d steps:\n%s", len(steps), all, text)
}

// weight returns a number that becomes smaller if a timeline becomes simpler.
func weight(steps []Step) (n int) {
	for _, s := range steps {
		n += 1 + len(s.String())
	}
	return n
}

// simplified returns steps that are simpler than s, each in one respect.
func simplified(s Step) (all []Step) {
	add := func(change func(*Step)) {
		next := s
		next.Claims = slices.Clone(s.Claims)
		if change(&next); next.String() != s.String() {
			all = append(all, next)
		}
	}
	add(func(n *Step) { n.Until, n.After = "", 0 })
	for i := range s.Claims {
		if len(s.Claims) > 1 {
			add(func(n *Step) { n.Claims = slices.Delete(n.Claims, i, i+1) })
		}
		for j := range s.Claims[i].Limits {
			if len(s.Claims[i].Limits) > 1 {
				add(func(n *Step) {
					n.Claims[i].Limits = slices.Delete(slices.Clone(n.Claims[i].Limits), j, j+1)
				})
			}
		}
		for _, change := range []func(*core.Claim){
			func(c *core.Claim) { c.Cost = 1 }, func(c *core.Claim) { c.DryRun = false }, func(c *core.Claim) { c.Peek = false },
			func(c *core.Claim) { c.Hold = false }, func(c *core.Claim) { c.MaxWait = 0 },
		} {
			add(func(n *Step) { change(&n.Claims[i]) })
		}
	}
	return all
}
