package core

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"
)

// finish settles what c holds for r, which has ended with o: each claim at what the Final of its rule says or, without
// one, at what was held. It does nothing if c holds nothing any more.
func (c *receipt) finish(r *http.Request, o Outcome) {
	if c.extra == nil {
		return
	}
	var room [2]Claim
	claims := c.extra.takeHeld(room[:0])
	if len(claims) == 0 {
		return
	}
	ctx := r.Context()
	var cost int
	var err error
	for i := range claims {
		claim := &claims[i]
		held, set := claim.Cost, claim.Final
		o.Cost = held
		if set >= 0 {
			o.Cost = set
		}
		cost += o.Cost
		final, mistake := finalCost(c.extra.final(claim.Rule), r, o, held)
		if claim.Final = final; mistake != nil {
			err = allOf(err, within(fmt.Sprintf("final of rule %q", claim.Rule), mistake))
		}
	}
	o.Cost = cost
	_ = c.settleHeld(ctx, claims, settlement{r, o, err}) // observers hear of a failure
}

// finalCost asks final, which may be nil. If it panics or says less than 0, the cost is what was held.
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

// A settlement describes held claims that are settled to observers.
type settlement struct {
	request *http.Request
	outcome Outcome
	err     error // what failed of a Final
}

// settleHeld settles claims, which c holds, and calls the observers. If the store fails, the claims of FailLocal rules are
// charged in the fallback, since their hold in the store is going to expire.
func (c *receipt) settleHeld(ctx context.Context, claims []Claim, s settlement) error {
	l := c.limiter
	took, err := c.store().settle(ctx, claims)
	if err != nil {
		err = unavailable(err)
		if c.store() == l.store {
			l.chargeFallback(ctx, c.extra.rules, claims)
		}
	}
	l.observeSettled(ctx, c, claims, took, s, err)
	return err
}

// chargeFallback charges the Final of the claims of FailLocal rules in the fallback. It holds nothing of them.
func (l *Limiter) chargeFallback(ctx context.Context, rules *ruleset, claims []Claim) {
	var local []Claim
	for _, claim := range claims {
		if rules.modeOf(claim.Rule) == FailLocal && claim.Final > 0 {
			claim.At = time.Time{}
			local = append(local, claim)
		}
	}
	if len(local) > 0 {
		_, _ = l.fallback.settle(ctx, local)
	}
}
