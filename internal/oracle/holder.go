package oracle

// A Portion is a number of requests that the store charged ahead at one instant of its clock.
type Portion struct{ At, Count int64 }

// An Answer says how a Holder decides a request.
type Answer struct {
	Taken  Portion   // what the request uses; if empty, the Holder does not decide the request
	At     int64     // the store's time of the decision, as the Holder estimates it
	Wait   bool      // the request waits for the pending loan and then asks again
	Unused []Portion // to be returned in the call that decides the request
	Want   int64     // how many requests to ask the store for ahead; 0: none
}

// A Holder is what one process holds of one key. Instants are on the monotonic clock of its process, in microseconds, except in Portion.
type Holder interface {
	// Ask decides a request. One that has waited does not wait again.
	Ask(now, cost int64, waited bool) Answer
	// PutBack puts back what a request took, because another claim of the request was denied.
	PutBack(now int64, taken Portion)
	// Lent adds what a call, sent at an instant, has charged ahead.
	Lent(now, sent int64, p Portion)
	// Failed ends a call for a loan that failed, or whose outcome is unknown.
	Failed(now int64)
	// Refund puts back what it can of an admitted request, and returns what the store is to refund. at is the store's time of the
	// decision, as the process knows it.
	Refund(now, at, cost int64) Portion
	// Ended returns the unused requests whose lease has ended. They are returned to the store.
	Ended(now int64) []Portion
}
