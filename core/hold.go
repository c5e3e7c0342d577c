package core

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"
)

// renewEvery is how often the hold of a request in flight is renewed. Otherwise it would end after 60 to 66 seconds.
const renewEvery = 20 * time.Second

// watches reports whether c, which holds something, has a claim that is held, is not settled, and whose rule has a CostAfter.
func (c *receipt) watches() bool {
	c.extra.mu.Lock()
	defer c.extra.mu.Unlock()
	return slices.ContainsFunc(c.claims(), func(a asked) bool { return a.isHeld() && a.rule.CostAfter != nil })
}

// keepHeld renews the holds of c, which has some, every renewEvery until they are settled.
func (c *receipt) keepHeld(ctx context.Context) {
	e := c.extra
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(renewEvery, func() {
		defer func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			if c.holds() {
				e.timer.Reset(renewEvery)
			}
		}()
		_ = c.renew(ctx) // the breaker logs a store that is down; the next try comes before the hold ends
	})
}

// renew renews the claims of c that are held and not settled.
func (c *receipt) renew(ctx context.Context) error {
	var renewals []Settlement
	var places []int // of the renewed claims
	c.lockIdle()
	claims := c.claims()
	for i, own := range c.each {
		if claims[i].isHeld() {
			renewals, places = c.settlements(renewals, i, 0, own), append(places, i)
			renewals[len(renewals)-1].Renew = true
		}
	}
	if len(renewals) == 0 {
		c.mu().Unlock()
		return nil
	}
	e := c.extra
	e.renewing = make(chan struct{})
	e.mu.Unlock()

	defer func() { // also if the store ends the goroutine
		close(e.renewing)
		e.renewing = nil
		e.mu.Unlock()
	}()
	err := func() error {
		defer e.mu.Lock()
		_, err := c.storeOf(renewals).settle(ctx, renewals)
		return err
	}()
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

// An Outcome is how a request ended.
type Outcome struct {
	// Cost is the cost that was held for the request or, if the handler called SetCost, the cost that it set.
	Cost int

	// Status is the status code that the client got: 200 if the handler wrote nothing, 101 after an upgrade (200 in gin, unless
	// the handler wrote 101). For a call of gRPC, gRPC-Web or Connect, it is the HTTP status of its code, as google.rpc.Code
	// documents: 401 for UNAUTHENTICATED, for example. A call that ended without a code has failed, with status 500.
	Status int

	// Bytes is the length of the response's body or, in interceptors of gRPC, of its messages before compression.
	Bytes int64

	// Err is not nil if the handler panicked, if the request's context had ended by then, because the client disconnected or a
	// deadline from outside of the limiter passed, or if the handler returned an error to which no response was written.
	Err error
}

// Failures is for Rule.CostAfter: only failed requests count. It returns o.Cost if o.Err is not nil or if o.Status is 400 or
// above, else 0.
func Failures(_ *http.Request, o Outcome) int {
	if o.Err != nil || o.Status >= 400 {
		return o.Cost
	}
	return 0
}

// Settle settles what this Guard holds for the request, which ended with o. It ignores o.Cost. The final cost is what the
// CostAfter of each rule returns; for a rule without CostAfter, it is the cost that was held. Adapters that watch the response
// call Settle when the handler has returned or panicked.
func (g *Guard) Settle(o Outcome) {
	c, r := &g.own.receipt, &g.own.request
	var room [2]Settlement
	held := c.unsettled(room[:0], func(i int, a *asked) (final int, wanted bool) {
		if !a.hold {
			return 0, false
		}
		final, set := c.extra.costs[i]
		if !set {
			final = a.cost
		}
		return final, true
	})
	e := ending{request: r, outcome: o}
	for i := range held {
		s := &held[i]
		s.asked, o.Cost = s.Final, s.Final
		var mistake error
		if s.Final, mistake = finalCost(s.rule.CostAfter, r, o, s.Cost); mistake != nil {
			e.err = allOf(e.err, within(fmt.Sprintf("cost after rule %q", s.Rule), mistake))
		}
	}
	_ = c.settleAll(r.Context(), held, e) // observers hear of a failure
}

// addCosts returns a + b, or the largest int if that is less. Neither is negative.
func addCosts(a, b int) int { return a + min(b, math.MaxInt-a) }

// finalCost calls final, which may be nil. If final panics or returns a negative number, the cost is what was held.
func finalCost(final func(*http.Request, Outcome) int, r *http.Request, o Outcome, held int) (cost int, err error) {
	if final == nil {
		return held, nil
	}
	defer recovered(&err)
	cost = held // if final panics
	own := final(r, o)
	if own < 0 {
		return cost, invalid("cost must not be negative, got %d", own)
	}
	return own, nil
}

// settleAll settles what c was charged or holds, which one store has decided, and calls the observers for what was held. If the
// store fails, settleAll also charges the costs that FailLocal rules held to the fallback. The store charges them when their
// holds end.
func (c *receipt) settleAll(ctx context.Context, own []Settlement, e ending) error {
	if len(own) == 0 {
		return nil
	}
	l, store := c.limiter, c.storeOf(own)
	took, err := store.settle(ctx, own)
	held := slices.DeleteFunc(own, func(s Settlement) bool { return !s.Held })
	if err != nil {
		err = unavailable(err)
		if store == l.store {
			l.chargeFallback(ctx, held)
		}
	}
	if len(held) > 0 && (e.err != nil || len(l.observers) > 0) {
		l.observeSettled(ctx, c, held, took, e, err)
	}
	return err
}

// chargeFallback charges the final costs of FailLocal rules to the fallback, which does not hold them.
func (l *Limiter) chargeFallback(ctx context.Context, held []Settlement) {
	local := slices.DeleteFunc(slices.Clone(held), func(s Settlement) bool { return s.rule.OnFailure != FailLocal || s.Final == 0 })
	for i := range local {
		local[i].At = time.Time{}
	}
	if len(local) > 0 {
		_, _ = l.fallback.settle(ctx, local)
	}
}
