// Package watch notes the status and the length of a response, in the same way for net/http, chi and echo.
package watch

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/felixge/httpsnoop"

	"github.com/spillgate/spillgate/middleware/internal/outcome"
)

// A Watch notes the status and the length of a response. A handler may go on writing after it has returned.
type Watch struct {
	status atomic.Int64 // of the first final WriteHeader; 0 before the response has begun
	bytes  atomic.Int64
}

// Writer returns a ResponseWriter with the same optional interfaces that writes to w, and the Watch that notes what is
// written. The ResponseWriters of net/http are wrapped by types of our own, because httpsnoop allocates for each of their
// methods.
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
	seen := new(Watch)
	return httpsnoop.Wrap(w, seen.hooks()), seen
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

// hooks note what is done. Those of CaptureMetrics would miss 101, flushes and hijacked connections.
func (s *Watch) hooks() httpsnoop.Hooks {
	return httpsnoop.Hooks{
		WriteHeader: s.writeHeader,
		Write:       s.write,
		WriteString: s.writeString,
		ReadFrom:    s.readFrom,
		Flush:       s.flush,
		FlushError:  s.flushError,
		Hijack:      s.hijack,
	}
}

func (s *Watch) writeHeader(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
	return func(status int) {
		next(status) // panics if there is no such status
		s.begin(status)
	}
}

func (s *Watch) write(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
	return func(p []byte) (int, error) {
		n, err := next(p)
		s.wrote(int64(n))
		return n, err
	}
}

func (s *Watch) writeString(next httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
	return func(text string) (int, error) {
		n, err := next(text)
		s.wrote(int64(n))
		return n, err
	}
}

func (s *Watch) readFrom(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
	return func(src io.Reader) (int64, error) {
		n, err := next(src)
		s.wrote(n)
		return n, err
	}
}

func (s *Watch) flush(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
	return func() {
		s.begin(http.StatusOK)
		next()
	}
}

func (s *Watch) flushError(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
	return func() error {
		s.begin(http.StatusOK)
		return next()
	}
}

// hijack takes a connection that was hijacked for an upgrade.
func (s *Watch) hijack(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
	return func() (net.Conn, *bufio.ReadWriter, error) {
		conn, buffer, err := next()
		if err == nil {
			s.begin(http.StatusSwitchingProtocols)
		}
		return conn, buffer, err
	}
}
