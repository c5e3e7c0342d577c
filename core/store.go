package core

import (
	"context"
	"fmt"
	"time"
)

// A Claim asks a store to charge a key.
type Claim struct {
	Rule, Key string  // together they name what is charged; an empty Rule is "default"
	Limits    []Limit // all must hold; empty, in Limiter.Take: the limits of the rule of that name
	Cost      int     // 0 means 1
	Peek      bool    // decide for Cost, charge nothing
	DryRun    bool    // never deny; charge if the claim fits and the request is admitted
}

// Validate returns an error that wraps ErrInvalid if c cannot be decided. Limiter.Take fills in what c leaves out; a
// Store calls Validate for claims that did not pass through a Limiter. It is cheap for limits that were seen before.
func (c *Claim) Validate() error {
	err := validateLimits(c.Limits)
	switch {
	case c.Cost < 0:
		err = invalid("cost must not be negative, got %d", c.Cost)
	case len(c.Limits) == 0:
		err = invalid("the claim has no limits")
	}
	if err != nil {
		return within(fmt.Sprintf("rule %q", ruleName(c.Rule)), err)
	}
	return nil
}

// A Store keeps what each key has used and decides claims. The package storetest states this contract as tests.
//
// A store must be safe for concurrent use. It must return soon after ctx is done, and must not keep claims, dst or what
// they point to after it has returned. A limiter does not rely on the former: it has a goroutine wait for the store, and
// goes on without it at the deadline. A store that always returns at once when ctx is done may have a method Punctual(),
// which does nothing; then the limiter saves the goroutine. The contexts that such a store gets have a method Timed(), which
// does nothing either, if they end at their deadline and never before: to watch that, many calls need but one timer, where
// Done takes one for each.
type Store interface {
	// Take decides all claims of one request together: if one that is not a dry run is denied, none is charged.
	// It appends one result per claim and limit to dst, in order, and returns the instant of its own clock at which it
	// decided. The same rule and key twice are charged as their sum. Running out is a result; an error means that
	// nothing was decided, and one that wraps ErrInvalid that the claims are at fault, not the store.
	Take(ctx context.Context, claims []Claim, dst []Result) (at time.Time, results []Result, err error)

	// Refund gives back what a Take at that instant charged, as far as it still counts. It never gives back more than
	// the key would have had if the Take had not happened, but for less than a tick of a token bucket.
	Refund(ctx context.Context, claims []Claim, at time.Time) error

	// Reset forgets everything about the keys of claims. It ignores their limits.
	Reset(ctx context.Context, claims []Claim) error
}
