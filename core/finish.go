package core

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"
)

// finish settles what c holds for r, which has ended with o. The final cost of a claim is what its rule's CostAfter
// returns; for a rule without CostAfter, it is the cost that was held. finish does nothing if c holds nothing.
func (c *receipt) finish(r *http.Request, o Outcome) {
	if !c.hasHeld() {
		return
	}
	var room [2]Settlement
	held := c.takeHeld(room[:0])
	if len(held) == 0 {
		return
	}
	ctx := r.Context()
	var cost int
	var err error
	for i := range held {
		s := &held[i]
		o.Cost = s.Cost
		if s.Final >= 0 {
			o.Cost = s.Final
		}
		cost += o.Cost
		final, mistake := finalCost(s.rule.CostAfter, r, o, s.Cost)
		if s.Final = final; mistake != nil {
			err = allOf(err, within(fmt.Sprintf("cost after rule %q", s.Rule), mistake))
		}
	}
	o.Cost = cost
	_ = c.settleHeld(ctx, held, ending{r, o, err}) // observers hear of a failure
}

// finalCost calls final, which may be nil. If final panics or returns a negative number, the cost is what was held.
func finalCost(final func(*http.Request, Outcome) int, r *http.Request, o Outcome, held int) (cost int, err error) {
	if final == nil {
		return held, nil
	}
	defer func() {
		if v := recover(); v != nil {
			cost, err = held, &callbackPanic{v, debug.Stack()}
		}
	}()
	if cost = final(r, o); cost < 0 {
		return held, invalid("cost must not be negative, got %d", cost)
	}
	return cost, nil
}

// An ending is how a request that held something has ended, for observers.
type ending struct {
	request *http.Request
	outcome Outcome
	err     error // the error of a CostAfter
}

// settleHeld settles what c holds and calls the observers. If the store fails, settleHeld also charges the costs that
// FailLocal rules held to the fallback. The store charges them when their holds end.
func (c *receipt) settleHeld(ctx context.Context, held []Settlement, e ending) error {
	l := c.limiter
	took, err := c.store().settle(ctx, held)
	if err != nil {
		err = unavailable(err)
		if c.store() == l.store {
			l.chargeFallback(ctx, held)
		}
	}
	l.observeSettled(ctx, c, held, took, e, err)
	return err
}

// chargeFallback charges the final costs of FailLocal rules to the fallback, which does not hold them.
func (l *Limiter) chargeFallback(ctx context.Context, held []Settlement) {
	var local []Settlement
	for _, s := range held {
		if s.rule.OnFailure == FailLocal && s.Final > 0 {
			s.At = time.Time{}
			local = append(local, s)
		}
	}
	if len(local) > 0 {
		_, _ = l.fallback.settle(ctx, local)
	}
}
