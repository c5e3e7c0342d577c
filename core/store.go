package core

import "context"

// A Store keeps what each key has used and decides claims. Implement it to keep limits in another database; package
// storetest tests this contract.
//
// The context that a Limiter passes ends at its deadline and never earlier: a client that disconnects does not cancel it.
// Calls that start at nearly the same time share its Done channel, so waiting for it needs no timer per call.
//
// An implementation must do five things. It must be safe for concurrent use. It must return when ctx is done, even if
// the server has not answered, because the Limiter waits for it. It must not keep claims, dst or what they point to
// after it returns. It must return an error that wraps ErrInvalid for claims and settlements that Validate rejects; any
// other error counts as a failure of the store, and the failure modes of the rules decide. It must decide all claims of
// a Take together, each by one clock, and report that clock's instant as Result.At.
type Store interface {
	// Take decides all claims of one request together: if a claim that is not a dry run is denied, no claim is charged.
	// It appends one result per claim and limit to dst, in order. If a rule and key occur twice, the sum of their costs
	// is charged. A denial is a result; an error means that nothing was decided. More than 64 claims are ErrInvalid.
	Take(ctx context.Context, claims []Claim, dst []Result) ([]Result, error)

	// Settle changes what was charged or held to Final, renews holds, bans keys, and grants requests. An error that
	// wraps ErrInvalid means that nothing was settled.
	//
	// If Final is lower than what was charged, the difference is given back as far as it still counts. The key never
	// gets more than it would have if the Take had charged Final, except for less than one tick of a token bucket. If
	// Final is higher, the difference is charged at the instant of the Settle, even if it does not fit.
	//
	// A grant raises the limit by Grant, or lowers it, until the window ends or, in a sliding window or log, for one
	// period; each grant ends by itself. A token bucket gets back at most what was used. A grant does not change what a
	// later settlement gives back.
	//
	// A hold that is neither settled nor renewed ends 60 to 66 seconds after it was made. At that instant, the store charges
	// its cost to the limits of its claim, even if it does not fit. A Settle after that corrects this charge.
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
