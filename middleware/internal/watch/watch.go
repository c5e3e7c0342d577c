// Package watch notes the status and the length of a response, in the same way for net/http, chi and echo.
package watch

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/spillgate/spillgate/middleware/internal/outcome"
)

// A Watch notes the status and the length of a response. A handler may go on writing after it has returned.
type Watch struct {
	status atomic.Int64 // of the first final WriteHeader; 0 before the response has begun
	bytes  atomic.Int64
}

// Writer returns a ResponseWriter with the same optional interfaces that writes to w, and the Watch that notes what is
// written. The ResponseWriters of net/http are wrapped in one allocation.
func Writer(w http.ResponseWriter) (http.ResponseWriter, *Watch) {
	_, push := w.(http.Pusher)
	_, hijack := w.(http.Hijacker)
	_, readFrom := w.(io.ReaderFrom)
	if c, ok := w.(common); ok {
		switch {
		case hijack && readFrom && !push:
			one := &http1{watching{common: c}}
			return one, &one.Watch
		case push && !hijack && !readFrom:
			two := &http2{watching{common: c}}
			return two, &two.Watch
		}
	}
	o := &other{ResponseWriter: w}
	return o.withOptional(), &o.Watch
}

// Answer returns the response to r as far as it has been written.
func (s *Watch) Answer(r *http.Request) outcome.Answer {
	status := int(s.status.Load())
	a := outcome.Answer{Status: status, Written: status != 0}
	if r.Method != http.MethodHead {
		a.Bytes = s.bytes.Load()
	}
	return a
}

// begin notes the status that the response begins with, unless it has begun. Informational responses come before it; 101 is
// final.
func (s *Watch) begin(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		s.status.CompareAndSwap(0, int64(status))
	}
}

// wrote notes a write of n bytes.
func (s *Watch) wrote(n int64) {
	s.begin(http.StatusOK)
	s.bytes.Add(n)
}
