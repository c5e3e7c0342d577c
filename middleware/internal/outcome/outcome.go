// Package outcome describes how requests ended, in the same way for all adapters.
package outcome

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/spillgate/spillgate/core"
)

// ErrPanic is the Outcome.Err of a request whose handler panicked, or ended its goroutine. Adapters do not recover from
// the panic, because that would lose its stack.
var ErrPanic = errors.New("the handler panicked")

// An Answer is the state of the response when the handler has ended.
type Answer struct {
	Returned bool  // the handler has neither panicked nor ended its goroutine
	Written  bool  // the response has begun
	Cut      bool  // a write of the body has failed
	Status   int   // 0 means 200
	Bytes    int64 // length of the body that was written; less than 0 means 0
	Err      error // the handler's error, unless a response was written for it
}

// Of returns how r ended. A panic before the response has begun gets status 500, because a middleware further out may
// respond with 500. The response to HEAD has no body, whatever was written.
func Of(r *http.Request, a Answer) core.Outcome {
	o := core.Outcome{Status: a.Status}
	if o.Status < http.StatusOK && (o.Status != http.StatusSwitchingProtocols || r.ProtoMajor > 1) {
		o.Status = http.StatusOK // net/http sends it behind a 1xx that the framework takes for the response
	}
	if r.Method != http.MethodHead {
		o.Bytes = max(a.Bytes, 0)
	}
	err := r.Context().Err()
	if a.Written && r.Method == http.MethodHead && r.ProtoMajor > 1 {
		// An HTTP/2 server ends the stream of HEAD when it has sent the header: it cancels the context, and writes fail. After
		// that, neither error says anything about the client.
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		if a.Cut {
			a.Err = nil
		}
	}
	if o.Err = cmp.Or(err, a.Err); !a.Returned {
		o.Err = ErrPanic
		if !a.Written {
			o.Status = http.StatusInternalServerError
		}
	}
	return o
}
