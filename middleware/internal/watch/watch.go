// Package watch records the status and the length of a response, for net/http, chi and echo alike.
package watch

import (
	"cmp"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/spillgate/spillgate/middleware/internal/call"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
)

// A Watch records the status and the length of a response. A handler's goroutines may still write after the handler has
// returned, so its fields are atomic.
type Watch struct {
	status atomic.Int64 // of the first final WriteHeader; 0 before the response has begun
	bytes  atomic.Int64
	cut    atomic.Bool // a write has failed
	http2  bool        // 101 is a status like any other 1xx: HTTP/2 has no upgrades
	call   *call.Response
}

// Writer returns a ResponseWriter that writes to w in response to r and has w's optional interfaces, and the Watch that
// records what is written. Wrapping a ResponseWriter of net/http takes one allocation, unless r is a call.
func Writer(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *Watch) {
	seen, isHTTP2 := call.Watch(w, r), r.ProtoMajor > 1
	_, push := w.(http.Pusher)
	_, hijack := w.(http.Hijacker)
	_, readFrom := w.(io.ReaderFrom)
	if c, ok := w.(common); ok {
		switch {
		case hijack && readFrom && !push:
			one := &http1{watching{base{w, Watch{call: seen, http2: isHTTP2}}, c}}
			return one, &one.Watch
		case push && !hijack && !readFrom:
			two := &http2{watching{base{w, Watch{call: seen, http2: isHTTP2}}, c}}
			return two, &two.Watch
		}
	}
	o := &other{base{w, Watch{call: seen, http2: isHTTP2}}}
	return o.withOptional(), &o.Watch
}

// Answer returns what has been written of the response.
func (s *Watch) Answer() outcome.Answer {
	status := int(s.status.Load())
	return outcome.Answer{Status: status, Written: status != 0, Cut: s.cut.Load(), Bytes: s.bytes.Load()}
}

// StatusOf returns the status of the request if the HTTP status of the response is status; 0 means 200. The status of a
// call of gRPC or Connect may be in the trailer or the body.
func (s *Watch) StatusOf(status int) int { return s.call.Status(cmp.Or(status, http.StatusOK)) }

// begin records the status of the response, unless the response has already begun. Informational (1xx) responses do not
// begin it, except 101 of HTTP/1.
func (s *Watch) begin(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols && !s.http2 {
		s.status.CompareAndSwap(0, int64(status))
		s.call.Begin()
	}
}

// sniffed is how much of a body net/http writes before it calls ReadFrom of the connection, to find its content type.
const sniffed = 512

// readFrom copies src to the response: the first bytes to first, in as many parts as without the limiter, and the others with
// rest. An empty src begins no response. All bytes of a call go through w, the watched writer.
func (s *Watch) readFrom(src io.Reader, w, first io.Writer, rest func(io.Reader) (int64, error)) (n int64, err error) {
	if s.call != nil {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	if s.status.Load() == 0 {
		from := start{Watch: s, Reader: src}
		n, err = io.Copy(first, io.LimitReader(&from, sniffed))
		s.bytes.Add(n)
		if err != nil && !from.failed {
			s.cut.Store(true)
		}
		if err != nil || n < sniffed {
			return n, err
		}
	}
	m, err := rest(src)
	s.wrote(m, nil) // the error may be of src
	return n + m, err
}

// start reads the start of a body, which begins the response unless it is empty.
type start struct {
	*Watch
	io.Reader
	failed bool
}

// Read implements io.Reader.
func (s *start) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if n > 0 {
		s.begin(http.StatusOK)
	}
	s.failed = err != nil && err != io.EOF
	return n, err
}

// wrote records a write of n bytes, which failed with err unless that is nil.
func (s *Watch) wrote(n int64, err error) {
	s.begin(http.StatusOK)
	s.bytes.Add(n)
	if err != nil {
		s.cut.Store(true)
	}
}
