package core

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A Claim asks a store to charge a key.
type Claim struct {
	Rule, Key string        // what is charged; an empty Rule is "default"
	Limits    []Limit       // all must hold; if empty, Limiter.Take uses the limits of the rule, which must not have a Tier
	Cost      int           // 0 means 1
	Peek      bool          // decide for Cost, charge nothing
	DryRun    bool          // never deny; charge if the claim fits and the request is admitted
	Hold      bool          // hold Cost until it is settled, instead of charging it
	Lease     time.Duration // how long requests charged ahead may be used; 0: charge nothing ahead
	MaxWait   time.Duration // how long the request may wait for its turn; 0: deny what does not fit now

	// Overridden is for observers: the limits come from the rule's Override. A Limiter sets it.
	Overridden bool

	// Set by a Limiter.
	rule *activeRule // with the Lease and the MaxWait of the claim
	set  *limitSet   // Limits, compiled
	open bool        // its rule failed open, so it has no results
}

// Validate is for stores. It returns an error that wraps ErrInvalid if c cannot be decided. It is cheap for limits that
// were validated recently. Validate returns an error for a claim without Limits; Limiter.Take accepts such a claim and
// uses the rule's limits.
func (c *Claim) Validate() error { return c.validate(c.compile()) }

// Compile is Validate for the stores of this module. It also returns the limits in the units of their algorithms.
func (c *Claim) Compile() ([]algorithm.Limit, error) {
	set := c.compile()
	return set.compiled, c.validate(set)
}

// validate is Validate for a claim whose limits are compiled.
func (c *Claim) validate(set *limitSet) error {
	if set.err == nil && c.Cost >= 0 && c.Lease == 0 && c.MaxWait == 0 && len(c.Limits) > 0 {
		return nil
	}
	err := set.err
	switch {
	case c.Cost < 0:
		err = invalid("cost must not be negative, got %d", c.Cost)
	case validateLease(c.Lease) != nil:
		err = validateLease(c.Lease)
	case len(c.Limits) == 0:
		err = invalid("the claim has no limits")
	case err == nil:
		err = c.checkWait(set)
	}
	return prefix(inRule(c.Rule, err))
}

// compile returns the limits of c compiled: by a limiter or, in a claim that did not pass through one, now.
func (c *Claim) compile() *limitSet {
	if c.set.isOf(c.Limits) {
		return c.set
	}
	return limitSetOf(c.Limits)
}

// inRule adds the name of the rule to err. It returns nil if err is nil.
func inRule(rule string, err error) error {
	if err == nil {
		return nil
	}
	return within(fmt.Sprintf("rule %q", ruleName(rule)), err)
}

// A Settlement is for stores. It changes what a Take has charged or held, bans a key, or grants it requests.
type Settlement struct {
	Rule, Key string
	Limits    []Limit       // the Claim's limits; may be empty for a ban
	At        time.Time     // the Take's Result.At, or At after the last renewal; zero if another store decided the Take
	Cost      int           // what the Take charged or held; 0 means 1
	DryRun    bool          // the Claim's DryRun: charge more than Cost only if that fits
	Held      bool          // the cost was held, not charged
	Lease     time.Duration // the Claim's Lease
	MaxWait   time.Duration // the Claim's MaxWait
	Wait      time.Duration // the Take's Result.Wait: results with different waits need a Settlement each
	Final     int           // the final cost
	Renew     bool          // keep the hold; sets At
	Ban       time.Duration // deny everything for this rule and key for this long
	Grant     int           // add this many requests, or take them away if it is negative; nothing is settled

	set  *limitSet   // Limits, compiled, if a limiter has done so
	rule *activeRule // that made the claim, if a limiter did
}

// Validate returns an error that wraps ErrInvalid if s cannot be settled. A Store calls it for settlements that did not
// pass through a Limiter. It is cheap for limits that were validated recently.
func (s *Settlement) Validate() error { return s.validate(s.compile()) }

// Compile is Validate for the stores of this module. It also returns the limits in the units of their algorithms.
func (s *Settlement) Compile() ([]algorithm.Limit, error) {
	set := s.compile()
	return set.compiled, s.validate(set)
}

// validate is Validate for a settlement whose limits are compiled.
func (s *Settlement) validate(set *limitSet) error {
	err := set.err
	switch {
	case s.Cost < 0:
		err = invalid("cost must not be negative, got %d", s.Cost)
	case s.Final < 0:
		err = invalid("final cost must not be negative, got %d", s.Final)
	case s.Grant < -maxRate || s.Grant > maxRate:
		err = invalid("grant must be between -%d and %d, got %d", maxRate, maxRate, s.Grant)
	case s.Ban < 0:
		err = invalid("ban must not be negative, got %v", s.Ban)
	case validateLease(s.Lease) != nil:
		err = validateLease(s.Lease)
	case len(s.Limits) == 0 && s.Ban == 0:
		err = invalid("the settlement has no limits")
	case err == nil:
		err = s.checkWait(set)
	}
	return prefix(inRule(s.Rule, err))
}

// compile returns the limits of s compiled: by a limiter or, in a settlement that did not pass through one, now.
func (s *Settlement) compile() *limitSet {
	if s.set.isOf(s.Limits) {
		return s.set
	}
	return limitSetOf(s.Limits)
}

// claim returns the claim that s settles, for observers.
func (s *Settlement) claim() Claim {
	return Claim{Rule: s.Rule, Key: s.Key, Limits: s.Limits, Cost: s.Cost, DryRun: s.DryRun, Hold: s.Held, Lease: s.Lease, MaxWait: s.MaxWait}
}

// A Pair is for stores: a rule and a key, which together name a counter. An empty Rule is "default".
type Pair struct{ Rule, Key string }

// complete fills in what claims leave out, from their rules, and validates the claims.
func (s *ruleset) complete(claims []Claim) error {
	for i := range claims {
		claim := &claims[i]
		claim.Rule = ruleName(claim.Rule)
		if err := s.completeOne(claim, s.named(claim.Rule)); err != nil {
			return within(fmt.Sprintf("claim %d: rule %q", i+1, claim.Rule), err)
		}
	}
	return nil
}

// completeOne is complete for one claim. rule is nil if no rule has the claim's name.
func (s *ruleset) completeOne(claim *Claim, rule *activeRule) error {
	claim.Overridden = false
	if rule != nil && rule.Override != nil && len(claim.Limits) == 0 && claim.Key != "" {
		if err := claim.override(rule); err != nil {
			return err
		}
	}
	switch {
	case rule != nil && rule.Tier == nil && len(claim.Limits) == 0:
		claim.Limits, claim.set = rule.Limits, rule.claim.set
	case !printableASCII(claim.Rule):
		return invalid("name must be printable ASCII")
	case len(claim.Limits) == 0 && rule != nil:
		return invalid("the rule has a Tier, which needs a request; set Claim.Limits to the limits of this key's tier, or to the rule's Limits")
	case len(claim.Limits) == 0:
		return invalid("there is no rule of this name, and the claim has no limits%s", s.meant(claim.Rule))
	default:
		claim.set = limitSetOf(claim.Limits)
		claim.Limits = claim.set.limits
	}
	if claim.set.err != nil {
		return claim.set.err
	}
	if rule != nil {
		claim.DryRun = claim.DryRun || rule.DryRun
		if claim.Lease == 0 {
			claim.Lease = rule.Lease
		}
		if claim.MaxWait == 0 {
			claim.MaxWait = rule.MaxWait
		}
	}
	if claim.rule = rule; rule == nil || claim.Lease != rule.Lease || claim.MaxWait != rule.MaxWait {
		claim.rule = rule.of(claim)
	}
	switch {
	case claim.Key == "":
		return ErrNoKey
	case claim.Cost < 0:
		return invalid("cost must not be negative, got %d", claim.Cost)
	case !claim.Hold && !claim.Peek && claim.set.inFlight:
		return invalid("a claim with a limit of requests in flight needs Hold or Peek")
	}
	if claim.Hold = claim.Hold && !claim.Peek; claim.Hold && rule != nil && rule.CostAfter != nil {
		claim.Cost = clamp(max(claim.Cost, 1), claim.Limits)
	}
	if err := validateLease(claim.Lease); err != nil {
		return err
	}
	return claim.checkWait(claim.set)
}

// of returns a rule for a claim that waits or leases otherwise than rule, or that no rule of a limiter made: rule is nil then.
func (rule *activeRule) of(c *Claim) *activeRule {
	own := new(activeRule)
	if rule != nil {
		*own = *rule
	}
	own.Name, own.Lease, own.MaxWait = c.Rule, c.Lease, c.MaxWait
	return own
}

// override sets the limits that the rule's Override returns for the key of c, if any.
func (c *Claim) override(rule *activeRule) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &callbackPanic{v, debug.Stack()}
		}
	}()
	if limits := rule.Override(c.Key); len(limits) > 0 {
		c.Overridden = true
		return c.use(limits, "override")
	}
	return nil
}
