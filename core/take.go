package core

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/memory"
)

// Take charges claims without a request, for jobs, logins or tokens. A claim without Limits uses the limits of its
// rule. A claim needs Limits if l has no rule of its name, or if that rule has a Tier and no Override for the key: without
// a request, Take cannot know which tier applies. While the store is down, a claim follows the FailureMode of its rule, or
// FailLocal if l has no rule of its name. Take returns the same errors as Check.
func (l *Limiter) Take(ctx context.Context, claims ...Claim) (Decision, error) {
	return l.take(ctx, new(taken), claims) // inlined, so that taken is on the stack of a caller that does not keep the decision
}

// taken is a receipt with room for its result.
type taken struct {
	receipt
	room [1]Result
}

// take is Take, recorded in t. It does not keep t: see receipt.
func (l *Limiter) take(ctx context.Context, t *taken, claims []Claim) (d Decision, err error) {
	ctx = orBackground(ctx)
	if l != nil && len(l.observers) > 0 {
		return l.takeObserved(ctx, new(taken), claims) // observers may keep it
	}
	if err = l.complete(&t.receipt, claims); err == nil {
		_, err = l.decideOnce(ctx, &t.receipt, maxMaxWait)
	}
	if err != nil {
		return d, prefix(err)
	}
	d = t.view(&t.room)
	return d, nil
}

// takeObserved is take for observers, and for Wait, which sleeps until the turn of the request.
func (l *Limiter) takeObserved(ctx context.Context, t *taken, claims []Claim) (Decision, error) {
	var took time.Duration
	err := l.complete(&t.receipt, claims)
	if err == nil {
		took, err = l.decide(ctx, nil, &t.receipt)
	}
	if !t.isEmpty() && len(l.observers) > 0 {
		err = l.observe(ctx, nil, &t.receipt, &t.room, took, err)
	}
	if err != nil {
		return Decision{}, prefix(err)
	}
	return t.view(&t.room), nil
}

// complete makes c ask for what claims say, with the missing fields filled in from their rules. It returns the first error.
// It still completes the other claims, because observers get all of them.
func (l *Limiter) complete(c *receipt, claims []Claim) error {
	rules, err := l.current()
	if err == nil && len(claims) == 0 {
		err = invalid("Take needs at least one claim")
	}
	if err != nil {
		return err
	}
	c.limiter = l
	for i := range claims {
		a := c.add()
		if mistake := rules.completeOne(a, &claims[i]); mistake != nil && err == nil {
			err = within(fmt.Sprintf("claim %d: rule %q", i+1, a.rule.Name), mistake)
		}
	}
	return err
}

// completeOne sets a, which is zero, to what claim says. It validates the result.
func (s *ruleset) completeOne(a *asked, claim *Claim) error {
	name := ruleName(claim.Rule)
	rule := s.byName[name]
	own := rule
	if rule == nil || claim.Lease != 0 && claim.Lease != rule.Lease || claim.MaxWait != 0 && claim.MaxWait != rule.MaxWait {
		own = rule.with(name, claim.Lease, claim.MaxWait)
	}
	a.rule, a.set, a.key, a.cost = own, own.set, claim.Key, claim.Cost
	a.peek, a.hold, a.dryRun = claim.Peek, claim.Hold && !claim.Peek, own.DryRun || claim.DryRun
	if own.Override != nil && len(claim.Limits) == 0 && a.key != "" {
		if err := a.replaceLimits(nil, a.key); err != nil {
			return err
		}
	}
	switch {
	case rule == nil && !printableASCII(name):
		return invalid("name must be printable ASCII")
	case len(claim.Limits) > 0:
		a.set = limitSetOf(claim.Limits)
	case a.over:
	case rule == nil:
		return invalid("there is no rule of this name, and the claim has no limits%s", s.meant(name))
	case rule.Tier != nil:
		return invalid("the rule has a Tier, which needs a request; pass the limits of this key's tier, or the rule's Limits: in Claim.Limits or, for Grant and UsageOf, as arguments")
	}
	switch err := a.set.mistake(a.cost, a.hold, own.Lease, own.MaxWait); {
	case err != nil:
		return err
	case a.key == "":
		return ErrNoKey
	case !a.hold && !a.peek && a.set.inFlight:
		return invalid("a claim with a limit of requests in flight needs Hold or Peek")
	}
	if a.hold && own.CostAfter != nil {
		a.cost = min(max(a.cost, 1), a.set.smallest)
	}
	return nil
}

// with returns a copy of rule, or a new rule if that is nil, with the Lease and the MaxWait of a claim.
func (rule *activeRule) with(name string, lease, maxWait time.Duration) *activeRule {
	own := &activeRule{set: limitSetOf(nil), hash: memory.RuleOf(name)}
	if rule != nil {
		*own = *rule
	}
	own.Name, own.Lease, own.MaxWait = name, cmp.Or(lease, own.Lease), cmp.Or(maxWait, own.MaxWait)
	return own
}
