package core

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/spillgate/spillgate/internal/memory"
)

// An asked is a claim inside a Limiter, from the rule to the settlement. The memory store reads it; other stores and
// observers get Claims made from it.
type asked struct {
	rule *activeRule // with the Lease and the MaxWait of the claim; made for the claim if no rule of the limiter has these
	set  *limitSet
	key  string
	cost int

	dryRun  bool
	peek    bool
	hold    bool
	over    bool // the limits come from the rule's Override
	now     bool // the request must not wait, whatever MaxWait is
	by      decider
	charged bool // or held
	settled bool
}

// A decider says who decides a claim.
type decider uint8

const (
	byStore decider = iota
	byFallback
	byNobody // it has no results: its rule failed open, or it holds only places and the request has not had its turn
)

// claim returns a as observers see it.
func (a *asked) claim() Claim {
	return Claim{
		Rule: a.rule.Name, Key: a.key, Limits: a.set.limits, Cost: a.cost, Peek: a.peek, DryRun: a.dryRun, Hold: a.hold, Lease: a.rule.Lease,
		MaxWait: a.rule.MaxWait, Overridden: a.over, rule: a.rule, set: a.set,
	}
}

// maxWait returns how long the request may wait for its turn, if it must not wait longer than most.
func (a *asked) maxWait(most time.Duration) time.Duration {
	if a.now {
		return 0
	}
	return min(a.rule.MaxWait, most)
}

// resultCount returns how many results a has.
func (a *asked) resultCount() int {
	if a.by == byNobody {
		return 0
	}
	return len(a.set.limits)
}

// isHeld reports whether a is held and not settled.
func (a *asked) isHeld() bool { return a.charged && a.hold && !a.settled }

// fill sets the fields of a by calling the callbacks of its rule for r. It reports false if the rule does not apply.
func (a *asked) fill(r *http.Request) (applies bool, err error) {
	rule := a.rule
	if rule.Match != nil && !rule.Match(r) {
		return false, nil
	}
	if rule.Cost != nil {
		if a.cost = rule.Cost(r); a.cost < 0 {
			return true, invalid("cost must not be negative, got %d", a.cost)
		}
		if a.cost == 0 {
			return false, nil
		}
	}
	if err := a.identify(r); err != nil {
		return true, err
	}
	if rule.CostAfter != nil {
		a.cost = clamp(a.cost, a.set.limits)
	}
	a.hold = !a.peek && (rule.CostAfter != nil || a.set.inFlight)
	return true, nil
}

// identify sets the key of a, and the limits that replace the rule's own, if any.
func (a *asked) identify(r *http.Request) error {
	rule := a.rule
	if rule.Key == nil {
		return invalid("key func is missing, so only Limiter.Take can use the rule; set Key to one such as keyfunc.RemoteIP")
	}
	key, err := rule.Key(r)
	if err == nil && key == "" {
		err = fmt.Errorf("the key func returned an empty key: %w", ErrNoKey)
	}
	if err != nil {
		return err
	}
	callback, limits := "override", []Limit(nil)
	if rule.Override != nil {
		limits = rule.Override(key)
		a.over = len(limits) > 0
	}
	if len(limits) == 0 && rule.Tier != nil {
		callback, limits = "tier", rule.Tier(r)
	}
	if len(limits) > 0 {
		if err := a.use(limits, callback); err != nil {
			return err
		}
	}
	a.key = key
	return nil
}

// use sets the limits of a to what a callback returned.
func (a *asked) use(limits []Limit, callback string) error {
	a.set = limitSetOf(limits)
	if a.set.err == nil && a.rule.MaxWait > 0 && !a.set.waits {
		return within(callback, limitsCanWait(a.rule.MaxWait, limits))
	}
	return within(callback, a.set.err)
}

// complete makes c ask for what claims say, with the missing fields filled in from their rules. It returns the first error.
// It still completes the other claims, because observers get all of them.
func (s *ruleset) complete(c *receipt, claims []Claim) (err error) {
	for i := range claims {
		a := c.add()
		if mistake := s.completeOne(a, &claims[i]); mistake != nil && err == nil {
			err = within(fmt.Sprintf("claim %d: rule %q", i+1, a.rule.Name), mistake)
		}
	}
	return err
}

// completeOne sets a, which is zero, to what claim says. It validates the result.
func (s *ruleset) completeOne(a *asked, claim *Claim) error {
	name := ruleName(claim.Rule)
	rule := s.named(name)
	own := rule
	if rule == nil || claim.Lease != 0 && claim.Lease != rule.Lease || claim.MaxWait != 0 && claim.MaxWait != rule.MaxWait {
		own = rule.with(name, claim.Lease, claim.MaxWait)
	}
	a.rule, a.set, a.key, a.cost = own, own.set, claim.Key, claim.Cost
	a.peek, a.hold, a.dryRun = claim.Peek, claim.Hold && !claim.Peek, own.DryRun || claim.DryRun
	if own.Override != nil && len(claim.Limits) == 0 && a.key != "" {
		if err := a.override(); err != nil {
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
		return invalid("the rule has a Tier, which needs a request; set Claim.Limits to the limits of this key's tier, or to the rule's Limits")
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
		a.cost = clamp(max(a.cost, 1), a.set.limits)
	}
	return nil
}

// override sets the limits that the rule's Override returns for the key of a, if any.
func (a *asked) override() (err error) {
	defer recovered(&err)
	if limits := a.rule.Override(a.key); len(limits) > 0 {
		a.over = true
		return a.use(limits, "override")
	}
	return nil
}

// noLimits are the limits of a claim that has none and no rule.
var noLimits = newLimitSet(nil)

// with returns a rule for a claim with another Lease or MaxWait than rule's, or that no rule of a limiter made: then rule is
// nil.
func (rule *activeRule) with(name string, lease, maxWait time.Duration) *activeRule {
	own := &activeRule{set: noLimits, hash: memory.RuleOf(name)}
	if rule != nil {
		*own = *rule
	}
	own.Name, own.Lease, own.MaxWait = name, cmp.Or(lease, own.Lease), cmp.Or(maxWait, own.MaxWait)
	return own
}

// recovered makes a panic of a callback an error: it must neither admit the request nor take the server down. Defer it.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = &callbackPanic{v, debug.Stack()}
	}
}
