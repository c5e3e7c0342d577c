package core

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"
)

// An Observer is called after the decision for each request that a rule applied to, including requests that were denied or
// could not be decided. It is called once more when a request that held a cost has been settled. It is not called for
// peeks. The request waits for the observer, so it must not block. It must be safe for concurrent use. If it panics, the
// panic is logged and the decision stands.
type Observer func(ctx context.Context, o *Observation)

// An Observation describes one request to an Observer. It and its Claims are valid only during the call.
type Observation struct {
	// Decision is zero if nothing was decided.
	Decision

	// Claims has the key and the cost of the request under each rule. If a rule's key func, Cost or Tier failed, its
	// claim is the last one and has no key. After a settlement, Claims are the claims that were held. If a request did not
	// get its turn under a rule with MaxWait, what it would have held then is a peek here, without limits of requests in
	// flight.
	Claims []Claim

	// Request is the request that key funcs see; nil for Take.
	Request *http.Request

	// Err says why nothing was decided. It wraps ErrNoKey, ErrBadKey, ErrInvalid or ErrUnavailable, or a key func's error.
	// After a settlement, it says why the settlement or a CostAfter failed. If a callback panicked, Err wraps an error with
	// a method Stack() []byte.
	Err error

	// An observer that logs Err sets Logged, so that the limiter does not log it again.
	Logged bool

	// Store is how long the store took. It is 0 if the store was not asked, and for a MemoryStore, because measuring
	// would take longer than the decision.
	Store time.Duration

	// Outcome is how the request ended. It is nil in the observation of a decision.
	Outcome *Outcome

	// Charged is the final cost of a settled request: the sum over Claims.
	Charged int
}

// spares has Observations that no call uses. A sync.Pool would take a hundred instructions more.
var spares [64]struct {
	atomic.Pointer[Observation]
	_ [56]byte // of a cache line
}

// spareOf returns the place in spares for the request of c. Go allocates the records of different processors in different
// pages, so processors rarely share a place.
func spareOf(c *receipt) *atomic.Pointer[Observation] {
	const page = 8 << 10
	return &spares[uintptr(unsafe.Pointer(c))/page%uintptr(len(spares))].Pointer
}

// observation returns an Observation with the claims of c.
func (c *receipt) observation() *Observation {
	o := spareOf(c).Swap(nil)
	if o == nil {
		o = new(Observation)
	}
	claims := c.claims()
	o.Claims = slices.Grow(o.Claims, len(claims))[:len(claims)]
	for i := range claims {
		claims[i].makeClaim(&o.Claims[i])
	}
	return o
}

// release makes o, the Observation of a request of c, available to other requests. It clears the fields that would keep the
// request in memory.
func (o *Observation) release(c *receipt) {
	*o = Observation{Claims: o.Claims[:0]}
	spareOf(c).Store(o)
}
