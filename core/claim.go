package core

import (
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/compiled"
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

	set *limitSet // Limits, compiled, if a limiter has done so
}

// maxClaims bounds the claims of a Take, so that no request keeps a store busy for long.
const maxClaims = 64

func tooMany(claims int) error {
	return invalid("a request has at most %d claims, got %d", maxClaims, claims)
}

// Validate is for stores. It returns an error that wraps ErrInvalid if c cannot be decided. It is cheap for limits that
// were validated recently. Validate returns an error for a claim without Limits; Limiter.Take accepts such a claim and
// uses the rule's limits.
func (c *Claim) Validate() error {
	_, err := c.compile()
	return err
}

// compile is Validate. It also returns the limits in the units of their algorithms.
func (c *Claim) compile() ([]algorithm.Limit, error) {
	set := c.set.of(c.Limits)
	err := set.mistake(c.Cost, c.Hold && !c.Peek, c.Lease, c.MaxWait)
	if err == nil && len(c.Limits) == 0 {
		err = invalid("the claim has no limits")
	}
	if err != nil {
		return nil, prefix(inRule(ruleName(c.Rule), err))
	}
	return set.compiled, nil
}

// mistake returns an error if the limits or another field of a claim are invalid. It does not report missing limits.
func (s *limitSet) mistake(cost int, hold bool, lease, maxWait time.Duration) error {
	switch {
	case cost < 0:
		return invalid("cost must not be negative, got %d", cost)
	case lease == 0 && maxWait == 0:
		return s.err
	}
	return allOf(s.err, s.timing(lease, maxWait, hold, "claim", "that is held"))
}

// The bounds of a lease, and the longest MaxWait.
const (
	minLease   = time.Millisecond
	maxLease   = 10 * time.Second
	maxMaxWait = time.Hour
)

// timing returns an error if a rule or a claim, as what says, must not have this lease or max wait. held says what holds its cost.
func (s *limitSet) timing(lease, maxWait time.Duration, hold bool, what, held string) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, invalid(format, args...)) }
	if lease != 0 && (lease < minLease || lease > maxLease) {
		wrong("lease must be 0 or between %v and %v, got %v", minLease, maxLease, lease)
	}
	if maxWait < 0 || maxWait > maxMaxWait {
		wrong("max wait must be between 0 and %v, got %v", maxMaxWait, maxWait)
	}
	if maxWait != 0 && hold {
		wrong("max wait must be 0 for a %s %s, got %v", what, held, maxWait)
	}
	if maxWait != 0 && lease != 0 {
		wrong("max wait must be 0 for a %s with a lease, got %v", what, maxWait)
	}
	return allOf(allOf(errs...), s.cannotWait(maxWait))
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
	Renew     bool          // keep the hold; the store sets At to the instant of the renewal
	Ban       time.Duration // deny everything for this rule and key for this long
	Grant     int           // add this many requests, or take them away if it is negative; nothing is settled

	set   *limitSet   // Limits, compiled, if a limiter has done so
	rule  *activeRule // that made the claim, if a limiter did
	local bool        // the fallback decided the claim
	asked int         // the cost that was held or, if the handler called SetCost, the cost that it set
}

// Validate returns an error that wraps ErrInvalid if s cannot be settled. A Store calls it for settlements that did not
// pass through a Limiter. It is cheap for limits that were validated recently.
func (s *Settlement) Validate() error {
	_, err := s.compile()
	return err
}

// compile is Validate. It also returns the limits in the units of their algorithms.
func (s *Settlement) compile() ([]algorithm.Limit, error) {
	set := s.set.of(s.Limits)
	err := set.mistake(s.Cost, s.Held, s.Lease, s.MaxWait)
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
	if err != nil {
		return nil, prefix(inRule(ruleName(s.Rule), err))
	}
	return set.compiled, nil
}

// A Pair is for stores: a rule and a key, which together name a counter. An empty Rule is "default".
type Pair struct{ Rule, Key string }

// The stores of this module get compiled limits through package compiled.
func init() {
	compiled.Limits = func(of any) ([]algorithm.Limit, error) {
		if s, ok := of.(*Settlement); ok {
			return s.compile()
		}
		return of.(*Claim).compile()
	}
	compiled.Full = func(settlements any) error { return tooMuch(settlements.([]Settlement)) }
}
