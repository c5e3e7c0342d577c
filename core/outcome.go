package core

import "net/http"

// An Outcome is how a request ended.
type Outcome struct {
	// Cost is the cost that was held for the request or, if the handler called SetCost, the cost that it set.
	Cost int

	// Status is the status code that the client got: 200 if the handler wrote nothing, 101 after an upgrade. For a call of
	// gRPC, gRPC-Web or Connect, it is the HTTP status of the code with which the call ended, as the documentation of
	// google.rpc.Code says: 401 for UNAUTHENTICATED, for example. A call that ended without a code has failed, with status 500.
	Status int

	// Bytes is the length of the response's body or, in interceptors of gRPC, of its messages before compression.
	Bytes int64

	// Err is not nil if the handler panicked, if the client disconnected, or if the handler returned an error to which
	// no response was written.
	Err error
}

// Failures is for Rule.CostAfter: only failed requests count. It returns o.Cost if o.Err is not nil or if o.Status is 400 or
// above, else 0.
func Failures(_ *http.Request, o Outcome) int {
	if o.Err != nil || o.Status >= 400 {
		return o.Cost
	}
	return 0
}
