// Package wire serves handlers on loopback and sends requests to them.
package wire

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

// Timeout bounds every wait of a test.
const Timeout = 20 * time.Second

// Protocols are the versions of HTTP that handlers are served by, for use as names of tests.
var Protocols = []struct {
	Name  string
	HTTP2 bool
}{{"HTTP/1.1", false}, {"HTTP/2", true}}

// A Server serves a handler until the test ends.
type Server struct {
	*httptest.Server
	t testing.TB
}

// Serve serves h by HTTP/1.1, or by HTTP/2 over TLS. It drops the log lines about panics in h.
func Serve(t testing.TB, h http.Handler, http2 bool) *Server {
	t.Helper()
	s := &Server{httptest.NewUnstartedServer(h), t}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	s.Client().Timeout = Timeout
	t.Cleanup(s.Close)
	return s
}

func (s *Server) Addr() string { return s.Listener.Addr().String() }

// A Reply is a response that has been read to its end.
type Reply struct {
	*http.Response
	Body string
}

// Get sends a GET request with header fields, each "Name: value".
func (s *Server) Get(path string, fields ...string) Reply {
	s.t.Helper()
	return s.Do(http.MethodGet, path, fields...)
}

// Do sends a request without a body.
func (s *Server) Do(method, path string, fields ...string) Reply {
	s.t.Helper()
	return s.Send(Request(s.t, method, s.URL+path, nil, fields...))
}

func (s *Server) Send(r *http.Request) Reply {
	s.t.Helper()
	return Send(s.t, s.Client(), r)
}

func Send(t testing.TB, client *http.Client, r *http.Request) Reply {
	t.Helper()
	resp, err := client.Do(r)
	must.Do(t, err)
	defer resp.Body.Close()
	return Reply{resp, string(must.Get(io.ReadAll(resp.Body))(t))}
}

// Request returns a request with header fields, each "Name: value". A name may occur several times.
func Request(t testing.TB, method, url string, body io.Reader, fields ...string) *http.Request {
	t.Helper()
	r := must.Get(http.NewRequest(method, url, body))(t)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func (r Reply) WantStatus(t testing.TB, status int) {
	t.Helper()
	must.Equal(t, r.StatusCode, status, "status; header %v, body %s", r.Header, r.Body)
}

func OK(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// PerHour returns a limiter of n per hour in memory, for all requests together. It counts exactly, and nothing refills during a test.
func PerHour(n int, opts ...core.Option) *core.Limiter {
	return core.Must(core.New([]core.Rule{core.PerHour(n).Using(core.SlidingLog).By(Anyone)}, opts...))
}

func Anyone(*http.Request) (string, error) { return "const:all", nil }
