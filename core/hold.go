package core

import (
	"context"
	"net/http"
	"time"
)

// renewEvery is the interval at which the hold of a request in flight is renewed. A hold ends 60 to 66 seconds after it was made
// or last renewed.
const renewEvery = 20 * time.Second

// hold makes c, a claim of rule with limits that are valid, one that is held, if it has to be.
func (c *Claim) hold(rule *activeRule) {
	final := rule.CostAfter != nil
	if final {
		c.Cost = clamp(c.Cost, c.Limits)
	}
	c.Hold = !c.Peek && (final || hasInFlight(c.Limits))
}

func hasInFlight(limits []Limit) bool {
	for i := range limits {
		if limits[i].Algorithm == InFlight {
			return true
		}
	}
	return false
}

// clamp returns cost or, if that is less, the smallest capacity of limits. The cost of a rule with CostAfter is an estimate, which must
// not make a request impossible.
func clamp(cost int, limits []Limit) int {
	for i := range limits {
		if capacity := limits[i].Capacity(); limits[i].Algorithm != InFlight {
			cost = min(cost, max(capacity, 1))
		}
	}
	return cost
}

// takeHeld appends the settlements of the held claims that are not settled yet to dst, with what SetCost set for each in Final,
// or -1. They count as settled from now on. It waits for a renewal in progress.
func (e *extra) takeHeld(dst []Settlement) []Settlement {
	e.lockIdle()
	defer e.mu.Unlock()
	for i := range e.charged {
		if one := &e.charged[i]; one.Held && !one.settled {
			one.settled = true
			one.Final = one.setCost
			dst = append(dst, one.Settlement)
		}
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	return dst
}

// watches reports whether a claim that is held and not settled is of a rule with CostAfter.
func (c *receipt) watches() bool {
	if c.extra == nil {
		return false
	}
	c.extra.mu.Lock()
	defer c.extra.mu.Unlock()
	for i := range c.extra.charged {
		if one := &c.extra.charged[i]; one.Held && !one.settled && c.extra.final(one.Rule) != nil {
			return true
		}
	}
	return false
}

// setCost notes what a request costs for a rule with CostAfter, and reports whether its claim is held and not settled.
func (c *receipt) setCost(rule string, cost int) (ok bool) {
	if c.extra == nil {
		return false
	}
	c.extra.mu.Lock()
	defer c.extra.mu.Unlock()
	for i := range c.extra.charged {
		if one := &c.extra.charged[i]; one.Rule == rule && one.Held && !one.settled && c.extra.final(rule) != nil {
			one.setCost, ok = cost, true
		}
	}
	return ok
}

// lockIdle locks e.mu when no renewal is in progress. It does not wait for one with e.mu locked.
func (e *extra) lockIdle() {
	e.mu.Lock()
	for e.renewing != nil {
		done := e.renewing
		e.mu.Unlock()
		<-done
		e.mu.Lock()
	}
}

// keepHeld renews what c holds from time to time until it is settled. It does nothing if c holds nothing.
func (c *receipt) keepHeld(ctx context.Context) {
	e := c.extra
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.holds() {
		return
	}
	e.timer = time.AfterFunc(renewEvery, func() {
		_ = c.renew(ctx) // the breaker logs a store that is down; there is another try before the hold ends
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.holds() {
			e.timer.Reset(renewEvery)
		}
	})
}

// renew renews what c holds.
func (c *receipt) renew(ctx context.Context) error {
	e := c.extra
	if e == nil {
		return nil
	}
	e.lockIdle()
	renewals, places := e.held()
	if len(renewals) == 0 {
		e.mu.Unlock()
		return nil
	}
	e.renewing = make(chan struct{})
	e.mu.Unlock()

	_, err := c.store().settle(ctx, renewals)

	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.renewing)
	e.renewing = nil
	if err != nil {
		return unavailable(err)
	}
	for i, place := range places {
		e.charged[place].At = renewals[i].At
	}
	return nil
}

// held returns renewals of the claims that are held and not settled, and their places in e.charged. The caller has locked e.mu.
func (e *extra) held() (renewals []Settlement, places []int) {
	for i := range e.charged {
		if one := &e.charged[i]; one.Held && !one.settled {
			renewals, places = append(renewals, one.Settlement), append(places, i)
			renewals[len(renewals)-1].Renew = true
		}
	}
	return renewals, places
}

// holds reports whether a claim is held and not settled. The caller has locked e.mu.
func (e *extra) holds() bool {
	for i := range e.charged {
		if e.charged[i].Held && !e.charged[i].settled {
			return true
		}
	}
	return false
}

// final returns the CostAfter of a rule, or nil.
func (e *extra) final(rule string) func(*http.Request, Outcome) int {
	if r := e.rules.named(rule); r != nil {
		return r.CostAfter
	}
	return nil
}
