package core

import (
	"fmt"
	"time"
)

// A Claim asks a store to charge a key.
type Claim struct {
	Rule, Key string        // together they name what is charged; an empty Rule is "default"
	Limits    []Limit       // all must hold; empty, in Limiter.Take: the limits of the rule; Settle: may be empty for a ban
	Cost      int           // 0 means 1
	Peek      bool          // decide for Cost, charge nothing
	DryRun    bool          // never deny; charge if the claim fits and the request is admitted
	Hold      bool          // Take: hold Cost until Settle. Settle: Cost was held, not charged
	Final     int           // Settle: the cost after all
	Renew     bool          // Settle: keep the hold; sets At
	Ban       time.Duration // Settle: nothing fits for so long
	At        time.Time     // Settle: Result.At of the Take, or At of the last renewal
	Lease     time.Duration // Take: how long requests charged ahead may be used; 0: charge nothing ahead
}

// Validate returns an error that wraps ErrInvalid if c cannot be decided or settled: a Settle that bans needs no limits, a Take
// does. Limiter.Take fills in what c leaves out; a Store calls Validate for claims that did not pass through a Limiter. It is
// cheap for limits that were seen before.
func (c *Claim) Validate() error { return prefix(c.validate()) }

func (c *Claim) validate() error {
	err := validateLimits(c.Limits)
	switch {
	case c.Cost < 0:
		err = invalid("cost must not be negative, got %d", c.Cost)
	case c.Final < 0:
		err = invalid("final cost must not be negative, got %d", c.Final)
	case c.Ban < 0:
		err = invalid("ban must not be negative, got %v", c.Ban)
	case validateLease(c.Lease) != nil:
		err = validateLease(c.Lease)
	case len(c.Limits) == 0 && c.Ban == 0:
		err = invalid("the claim has no limits")
	}
	if err == nil {
		return nil
	}
	return within(fmt.Sprintf("rule %q", ruleName(c.Rule)), err)
}

// needLimits returns an error if a claim of a Take has no limits.
func needLimits(claims []Claim) error {
	for i := range claims {
		if len(claims[i].Limits) == 0 {
			return (&Claim{Rule: claims[i].Rule}).Validate()
		}
	}
	return nil
}

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
			if len(claim.Limits) == 0 {
				claim.Limits = rule.Limits
			}
			if claim.Lease == 0 {
				claim.Lease = rule.Lease
			}
		}
		claim.Final, claim.Renew, claim.Ban, claim.At = 0, false, 0, time.Time{} // these are for Settle
		if err := claim.validateTake(s, rule); err != nil {
			return within(fmt.Sprintf("claim %d: rule %q", i+1, claim.Rule), err)
		}
		if claim.Hold = claim.Hold && !claim.Peek; claim.Hold && rule != nil && rule.Final != nil {
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
	case len(c.Limits) == 0:
		return invalid("there is no rule of this name, and the claim has no limits%s", s.meant(c.Rule))
	}
	return validateLimits(c.Limits)
}
