package core

import "context"

// A Store keeps what each key has used and decides claims. Implement it to keep limits somewhere else; package storetest
// has this contract as tests.
//
// The context that a Limiter passes ends at its deadline and never earlier: a client that disconnects does not cancel it.
// Calls that start at nearly the same time share its Done channel, so waiting for it needs no timer per call.
//
// An implementation must do five things. It must be safe for concurrent use. It must return when ctx is done, even if the
// server still has not answered: a Limiter has no other way to go on. It must not keep claims, dst or what they point to
// after it returns. It must return an error that wraps ErrInvalid for claims and settlements that Validate rejects; any
// other error counts as a failure of the store, and the failure modes of the rules decide. It must decide all claims of a
// Take together, each by one clock, and report that clock's instant as Result.At.
type Store interface {
	// Take decides all claims of one request together: if one that is not a dry run is denied, none is charged.
	// It appends one result per claim and limit to dst, in order. The same rule and key twice are charged as their sum.
	// Running out is a result; an error means that nothing was decided.
	Take(ctx context.Context, claims []Claim, dst []Result) ([]Result, error)

	// A hold that is neither settled nor renewed ends 60 to 66 seconds after it was made. Its cost is then charged, whether it fits
	// or not, to all limits of the pair that have state; each limit of a held claim has. A Settle after that adjusts this charge.
	//
	// Settle replaces what was charged or held with Final, renews holds, bans, or grants requests. A grant lowers what counts as used by
	// Grant until the window ends, or for one period, and below nothing; of a token bucket, it gives back at most what was used. It does
	// not change what a later settlement gives back. What was charged too much is given back as
	// far as it still counts, and never more than the key would have had if the Take had charged Final, but for less than a
	// tick of a token bucket. A further charge is made at the instant of the Settle, even if it does not fit. An error that
	// wraps ErrInvalid means that nothing was settled.
	Settle(ctx context.Context, settlements []Settlement) error

	// Reset forgets what was charged to the pairs, and lifts their bans. It keeps what is held, and what its end charges.
	Reset(ctx context.Context, pairs []Pair) error
}

// A LocalTaker is a Store that can decide some claims without asking a server, for example from a remembered denial. A
// Limiter calls TakeLocal before Take, without a deadline and even while the store is down. The answer says nothing about
// the store's health.
type LocalTaker interface {
	Store

	// TakeLocal is Take for claims that can be decided at once; it reports false for all others. It must not wait.
	TakeLocal(claims []Claim, dst []Result) (results []Result, ok bool)
}
