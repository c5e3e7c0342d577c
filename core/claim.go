package core

import (
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
	rule  *activeRule // with the Lease and the MaxWait of the claim
	set   *limitSet   // Limits, compiled
	open  bool        // it has no results: its rule failed open, or it holds only places and the request has not had its turn
	local bool        // the fallback decided it
}

// maxClaims bounds the claims of a Take, so that no request keeps a store busy for long.
const maxClaims = 64

func tooMany(claims []Claim) error {
	return invalid("a request has at most %d claims, got %d", maxClaims, len(claims))
}

// Validate is for stores. It returns an error that wraps ErrInvalid if c cannot be decided. It is cheap for limits that
// were validated recently. Validate returns an error for a claim without Limits; Limiter.Take accepts such a claim and
// uses the rule's limits.
func (c *Claim) Validate() error { return c.validate(c.set.of(c.Limits)) }

// validate is Validate for a claim whose limits are compiled.
func (c *Claim) validate(set *limitSet) error {
	err := c.mistake(set)
	if err == nil && len(c.Limits) == 0 {
		err = invalid("the claim has no limits")
	}
	if err == nil {
		return nil
	}
	return prefix(inRule(c.Rule, err))
}

// mistake returns an error if a field of c is invalid, other than missing Limits. set is c's Limits, compiled.
func (c *Claim) mistake(set *limitSet) error {
	switch {
	case c.Cost < 0:
		return invalid("cost must not be negative, got %d", c.Cost)
	case c.Lease != 0 && validateLease(c.Lease) != nil:
		return validateLease(c.Lease)
	case set.err != nil || c.MaxWait == 0:
		return set.err
	case validateMaxWait(c.MaxWait) != nil:
		return validateMaxWait(c.MaxWait)
	case c.Hold && !c.Peek:
		return invalid("max wait must be 0 for a claim that is held, got %v", c.MaxWait)
	case c.Lease != 0:
		return invalid("max wait must be 0 for a claim with a lease, got %v", c.MaxWait)
	case !set.waits:
		return limitsCanWait(c.MaxWait, c.Limits)
	}
	return nil
}

// use sets the limits of c to what a callback returned.
func (c *Claim) use(limits []Limit, callback string) error {
	set := limitSetOf(limits)
	c.Limits, c.set = set.limits, set
	if set.err == nil && c.MaxWait > 0 && !set.waits {
		return within(callback, limitsCanWait(c.MaxWait, limits))
	}
	return within(callback, set.err)
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

	set   *limitSet   // Limits, compiled, if a limiter has done so
	rule  *activeRule // that made the claim, if a limiter did
	local bool        // the fallback decided the claim
}

// Validate returns an error that wraps ErrInvalid if s cannot be settled. A Store calls it for settlements that did not
// pass through a Limiter. It is cheap for limits that were validated recently.
func (s *Settlement) Validate() error { return s.validate(s.set.of(s.Limits)) }

// validate is Validate for a settlement whose limits are compiled.
func (s *Settlement) validate(set *limitSet) error {
	claim := s.claim()
	err := claim.mistake(set)
	switch {
	case err != nil:
	case s.Final < 0:
		err = invalid("final cost must not be negative, got %d", s.Final)
	case s.Grant < -maxRate || s.Grant > maxRate:
		err = invalid("grant must be between -%d and %d, got %d", maxRate, maxRate, s.Grant)
	case s.Ban < 0:
		err = invalid("ban must not be negative, got %v", s.Ban)
	case len(s.Limits) == 0 && s.Ban == 0:
		err = invalid("the settlement has no limits")
	case s.Wait < 0 || s.Wait > s.MaxWait:
		err = invalid("wait must be between 0 and the max wait %v, got %v", s.MaxWait, s.Wait)
	}
	return prefix(inRule(s.Rule, err))
}

// claim returns the claim that s settles.
func (s *Settlement) claim() Claim {
	return Claim{Rule: s.Rule, Key: s.Key, Limits: s.Limits, Cost: s.Cost, DryRun: s.DryRun, Hold: s.Held, Lease: s.Lease, MaxWait: s.MaxWait}
}

// A Pair is for stores: a rule and a key, which together name a counter. An empty Rule is "default".
type Pair struct{ Rule, Key string }

// Compile is Validate for the stores of this module. It also returns the limits in the units of their algorithms.
func (c *Claim) Compile() ([]algorithm.Limit, error) {
	set := c.set.of(c.Limits)
	return set.compiled, c.validate(set)
}

// Compile is Validate for the stores of this module. It also returns the limits in the units of their algorithms.
func (s *Settlement) Compile() ([]algorithm.Limit, error) {
	set := s.set.of(s.Limits)
	return set.compiled, s.validate(set)
}
