package core

import (
	"context"
	"time"
)

// renewEvery is the interval at which the hold of a request in flight is renewed. A hold ends 60 to 66 seconds after it was made
// or last renewed.
const renewEvery = 20 * time.Second

// watches reports whether c, which holds something, has a claim that is held, is not settled, and whose rule has a CostAfter.
func (c *receipt) watches() bool {
	c.mu().Lock()
	defer c.mu().Unlock()
	claims := c.claims()
	for i := range claims {
		if one := &claims[i]; one.isHeld() && one.rule.CostAfter != nil {
			return true
		}
	}
	return false
}

// takeHeld appends to dst a settlement for each claim that is held and not settled, and marks these claims as settled.
// Final is the cost that SetCost set, or -1. takeHeld waits for a renewal in progress.
func (c *receipt) takeHeld(dst []Settlement) []Settlement {
	c.lockIdle()
	defer c.mu().Unlock()
	claims := c.claims()
	for i := range claims {
		if one := &claims[i]; one.isHeld() {
			one.settled = true
			final, set := c.extra.costs[i]
			if !set {
				final = -1
			}
			dst = append(dst, c.settlement(i, final))
		}
	}
	if c.extra != nil && c.extra.timer != nil {
		c.extra.timer.Stop()
	}
	return dst
}

// setCost records the cost of the request under a rule with CostAfter. It reports whether the rule's claim is held and
// not settled.
func (c *receipt) setCost(rule string, cost int) (ok bool) {
	if !c.held {
		return false
	}
	c.mu().Lock()
	defer c.mu().Unlock()
	claims := c.claims()
	for i := range claims {
		if one := &claims[i]; one.rule.Name == rule && one.isHeld() && one.rule.CostAfter != nil {
			if c.extra.costs == nil {
				c.extra.costs = make(map[int]int)
			}
			c.extra.costs[i], ok = cost, true
		}
	}
	return ok
}

// keepHeld renews the holds of c every renewEvery until they are settled. It does nothing if c holds nothing.
func (c *receipt) keepHeld(ctx context.Context) {
	if !c.held {
		return
	}
	c.mu().Lock()
	defer c.mu().Unlock()
	e := c.more()
	e.timer = time.AfterFunc(renewEvery, func() {
		_ = c.renew(ctx) // the breaker logs a store that is down; the next try comes before the hold ends
		c.mu().Lock()
		defer c.mu().Unlock()
		if c.holds() {
			e.timer.Reset(renewEvery)
		}
	})
}

// renew renews what c holds.
func (c *receipt) renew(ctx context.Context) error {
	c.lockIdle()
	renewals, places := c.renewals()
	if len(renewals) == 0 {
		c.mu().Unlock()
		return nil
	}
	e := c.more()
	e.renewing = make(chan struct{})
	c.mu().Unlock()

	_, err := c.storeOf(renewals).settle(ctx, renewals)

	c.mu().Lock()
	defer c.mu().Unlock()
	close(e.renewing)
	e.renewing = nil
	if err != nil {
		return unavailable(err)
	}
	if e.renewed == nil {
		e.renewed = make(map[int]time.Time, len(places))
	}
	for i, place := range places {
		e.renewed[place] = renewals[i].At
	}
	return nil
}

// renewals returns settlements that renew the claims that are held and not settled, and the indexes of these claims in
// c.claims(). The caller has locked c.mu().
func (c *receipt) renewals() (renewals []Settlement, places []int) {
	claims := c.claims()
	for i := range claims {
		if claims[i].isHeld() {
			s := c.settlement(i, 0)
			s.Renew = true
			renewals, places = append(renewals, s), append(places, i)
		}
	}
	return renewals, places
}
