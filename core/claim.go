package core

import (
	"fmt"
	"time"
)

// A Claim asks a store to charge a key.
type Claim struct {
	Rule, Key string        // together they name what is charged; an empty Rule is "default"
	Limits    []Limit       // all must hold; if empty, Limiter.Take uses the limits of the rule, which must not have a Tier
	Cost      int           // 0 means 1
	Peek      bool          // decide for Cost, charge nothing
	DryRun    bool          // never deny; charge if the claim fits and the request is admitted
	Hold      bool          // hold Cost until it is settled, instead of charging it
	Lease     time.Duration // how long requests charged ahead may be used; 0: charge nothing ahead
}

// Validate returns an error that wraps ErrInvalid if c cannot be decided. Limiter.Take fills in what c leaves out; a Store calls
// Validate for claims that did not pass through a Limiter. It is cheap for limits that were seen before.
func (c *Claim) Validate() error {
	err := allOf(validateLimits(c.Limits), undecided(c.Limits))
	switch {
	case c.Cost < 0:
		err = invalid("cost must not be negative, got %d", c.Cost)
	case validateLease(c.Lease) != nil:
		err = validateLease(c.Lease)
	case len(c.Limits) == 0:
		err = invalid("the claim has no limits")
	}
	return prefix(inRule(c.Rule, err))
}

// inRule says of which rule err is. It returns nil if err is nil.
func inRule(rule string, err error) error {
	if err == nil {
		return nil
	}
	return within(fmt.Sprintf("rule %q", ruleName(rule)), err)
}

// settlement returns a Settlement of c, which a Take charged or held at an instant.
func (c *Claim) settlement(at time.Time) Settlement {
	return Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: at, Cost: c.Cost, DryRun: c.DryRun, Held: c.Hold, Lease: c.Lease}
}

// A Settlement changes what a Take has charged or held, or bans a key.
type Settlement struct {
	Rule, Key string
	Limits    []Limit       // the Claim's limits; may be empty for a ban
	At        time.Time     // the Take's Result.At, or At after the last renewal; zero if another store decided the Take
	Cost      int           // what the Take charged or held; 0 means 1
	DryRun    bool          // the Claim's DryRun: charge more than Cost only if that fits
	Held      bool          // the cost was held, not charged
	Lease     time.Duration // the Claim's Lease
	Final     int           // the final cost
	Renew     bool          // keep the hold; sets At
	Ban       time.Duration // deny everything for this rule and key for this long
}

// Validate returns an error that wraps ErrInvalid if s cannot be settled. A Store calls it for settlements that did not pass through a
// Limiter. It is cheap for limits that were seen before.
func (s *Settlement) Validate() error {
	err := allOf(validateLimits(s.Limits), undecided(s.Limits))
	switch {
	case s.Cost < 0:
		err = invalid("cost must not be negative, got %d", s.Cost)
	case s.Final < 0:
		err = invalid("final cost must not be negative, got %d", s.Final)
	case s.Ban < 0:
		err = invalid("ban must not be negative, got %v", s.Ban)
	case validateLease(s.Lease) != nil:
		err = validateLease(s.Lease)
	case len(s.Limits) == 0 && s.Ban == 0:
		err = invalid("the settlement has no limits")
	}
	return prefix(inRule(s.Rule, err))
}

// claim returns what s settles, for observers.
func (s *Settlement) claim() Claim {
	return Claim{Rule: s.Rule, Key: s.Key, Limits: s.Limits, Cost: s.Cost, DryRun: s.DryRun, Hold: s.Held, Lease: s.Lease}
}

// A Pair is a rule and a key: together they name what is charged. An empty Rule is "default".
type Pair struct{ Rule, Key string }

// isPlain reports whether c asks Limiter.Take for nothing but a charge, or a peek, that its rule describes.
func (c *Claim) isPlain() bool {
	return c.Key != "" && len(c.Limits) == 0 && !c.DryRun && !c.Hold && c.Lease == 0
}

// complete fills in what the rules of claims say, and checks claims. It prepares c for them.
func (s *ruleset) complete(c *receipt, claims []Claim) error {
	var rule *activeRule
	for i := range claims {
		claim := &claims[i]
		claim.Rule = ruleName(claim.Rule)
		if rule = s.named(claim.Rule); rule != nil {
			claim.DryRun = claim.DryRun || rule.DryRun
			if len(claim.Limits) == 0 && rule.Tier == nil {
				claim.Limits = rule.Limits
			}
			if claim.Lease == 0 {
				claim.Lease = rule.Lease
			}
		}
		if err := claim.validateTake(s, rule); err != nil {
			return within(fmt.Sprintf("claim %d: rule %q", i+1, claim.Rule), err)
		}
		if claim.Hold = claim.Hold && !claim.Peek; claim.Hold && rule != nil && rule.CostAfter != nil {
			claim.Cost = clamp(max(claim.Cost, 1), claim.Limits)
		}
	}
	c.expect(rule, claims)
	return nil
}

// validateTake checks a claim of Limiter.Take by the rules s. Rule is that of its name, or nil: New has checked its limits.
func (c *Claim) validateTake(s *ruleset, rule *activeRule) error {
	if rule == nil || len(c.Limits) == 0 || &c.Limits[0] != &rule.Limits[0] {
		if err := c.validateOwnLimits(s); err != nil {
			return err
		}
	}
	switch {
	case c.Key == "":
		return ErrNoKey
	case c.Cost < 0:
		return invalid("cost must not be negative, got %d", c.Cost)
	case !c.Hold && !c.Peek && hasInFlight(c.Limits):
		return invalid("a claim with a limit of requests in flight needs Hold or Peek")
	}
	return validateLease(c.Lease)
}

// validateOwnLimits checks the name and the limits of a claim whose limits are not those of a rule.
func (c *Claim) validateOwnLimits(s *ruleset) error {
	switch {
	case !printableASCII(c.Rule):
		return invalid("name must be printable ASCII")
	case len(c.Limits) == 0 && s.named(c.Rule) != nil:
		return invalid("the rule has a Tier, which needs a request; set Claim.Limits to the limits of this key's tier, or to the rule's Limits")
	case len(c.Limits) == 0:
		return invalid("there is no rule of this name, and the claim has no limits%s", s.meant(c.Rule))
	}
	return allOf(validateLimits(c.Limits), undecided(c.Limits))
}
