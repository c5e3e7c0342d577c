package serve

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/felixge/httpsnoop"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
)

// A watch notes the status and the length of a response. A handler may go on writing after it has returned.
type watch struct {
	status atomic.Int64 // of the first final WriteHeader; 0 before the response has begun
	bytes  atomic.Int64
}

// watchNext serves a request whose outcome is wanted. The handler gets a ResponseWriter with the same optional interfaces.
func watchNext(next http.Handler, w http.ResponseWriter, g *core.Guard) {
	w, seen := watched(w)
	returned := false
	defer func() { g.Settle(seen.outcome(g.Request(), returned)) }()
	next.ServeHTTP(w, g.Request())
	returned = true
}

// watched returns w as it is to be passed on, and what it notes. The ResponseWriters of net/http are wrapped by types of our
// own, because httpsnoop allocates for each of their methods.
func watched(w http.ResponseWriter) (http.ResponseWriter, *watch) {
	_, push := w.(http.Pusher)
	_, hijack := w.(http.Hijacker)
	_, readFrom := w.(io.ReaderFrom)
	if c, ok := w.(common); ok {
		switch {
		case hijack && readFrom && !push:
			one := &http1{watching{common: c}}
			return one, &one.watch
		case push && !hijack && !readFrom:
			two := &http2{watching{common: c}}
			return two, &two.watch
		}
	}
	seen := new(watch)
	return httpsnoop.Wrap(w, seen.hooks()), seen
}

func (s *watch) outcome(r *http.Request, returned bool) core.Outcome {
	a := outcome.Answer{Returned: returned, Status: int(s.status.Load()), Written: s.status.Load() != 0}
	if r.Method != http.MethodHead {
		a.Bytes = s.bytes.Load()
	}
	return outcome.Of(r, a)
}

// begin notes the status that the response begins with, unless it has begun. Informational responses come before it; 101 is
// final.
func (s *watch) begin(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		s.status.CompareAndSwap(0, int64(status))
	}
}

// wrote notes a write of n bytes.
func (s *watch) wrote(n int64) {
	s.begin(http.StatusOK)
	s.bytes.Add(n)
}

// hooks note what is done. Those of CaptureMetrics would miss 101, flushes and hijacked connections.
func (s *watch) hooks() httpsnoop.Hooks {
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

func (s *watch) writeHeader(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
	return func(status int) {
		next(status) // panics if there is no such status
		s.begin(status)
	}
}

func (s *watch) write(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
	return func(p []byte) (int, error) {
		n, err := next(p)
		s.wrote(int64(n))
		return n, err
	}
}

func (s *watch) writeString(next httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
	return func(text string) (int, error) {
		n, err := next(text)
		s.wrote(int64(n))
		return n, err
	}
}

func (s *watch) readFrom(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
	return func(src io.Reader) (int64, error) {
		n, err := next(src)
		s.wrote(n)
		return n, err
	}
}

func (s *watch) flush(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
	return func() {
		s.begin(http.StatusOK)
		next()
	}
}

func (s *watch) flushError(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
	return func() error {
		s.begin(http.StatusOK)
		return next()
	}
}

// hijack takes a connection that was hijacked for an upgrade.
func (s *watch) hijack(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
	return func() (net.Conn, *bufio.ReadWriter, error) {
		conn, buffer, err := next()
		if err == nil {
			s.begin(http.StatusSwitchingProtocols)
		}
		return conn, buffer, err
	}
}
