package responses

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
)

// traced sends r and counts the informational responses to it.
func traced(s *wire.Server, r *http.Request) (got wire.Reply, hints, continues int32) {
	var h, c atomic.Int32
	trace := &httptrace.ClientTrace{
		Got100Continue: func() { c.Add(1) },
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			if code == http.StatusEarlyHints && header.Get("Link") != "" {
				h.Add(1)
			}
			return nil
		},
	}
	got = s.Send(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	return got, h.Load(), c.Load()
}

// TestEarlyHints checks that 103 gets to the client before the response. Gin and echo take any status for the final one,
// so the handler asks the writer beneath.
func TestEarlyHints(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		innermost(w).WriteHeader(http.StatusEarlyHints)
		wire.OK(w, r)
	}
	eachOf(t, 1, h, func(t *testing.T, s *wire.Server) {
		got, hints, _ := traced(s, wire.Request(t, http.MethodGet, s.URL, nil))
		got.WantStatus(t, 200)
		wire.WantRemaining(t, got.Header, "0")
		if hints != 1 || got.Body != "ok" {
			t.Errorf("%d hints, body %q", hints, got.Body)
		}
		if got, hints, _ = traced(s, wire.Request(t, http.MethodGet, s.URL, nil)); got.StatusCode != 429 || hints != 0 {
			t.Errorf("denied: status %d, %d hints", got.StatusCode, hints)
		}
	})
}

// TestExpectContinue checks that a body is asked for when the handler reads it, and never for a denied request.
func TestExpectContinue(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	eachOf(t, 1, h, func(t *testing.T, s *wire.Server) {
		s.Client().Transport.(*http.Transport).ExpectContinueTimeout = wire.Timeout
		for _, row := range []struct {
			status int
			asked  int32
		}{{200, 1}, {429, 0}} {
			r := wire.Request(t, http.MethodPost, s.URL, strings.NewReader("body"), "Expect: 100-continue")
			got, _, asked := traced(s, r)
			got.WantStatus(t, row.status)
			if asked != row.asked || (got.Body == "body") != (row.status == 200) {
				t.Errorf("status %d: asked for the body %d times, want %d; answer %q", row.status, asked, row.asked, got.Body)
			}
		}
	})
}

// TestDeniedUpload reads what a denied upload is answered as it comes over the wire: the first line is the final status,
// and the server does not wait for a body that it never asked for.
func TestDeniedUpload(t *testing.T) {
	for _, f := range apps.Frameworks {
		s := wire.Serve(t, f.Build(apps.Limited(wire.PerHour(0), wire.OK)), false)
		start := time.Now()
		_, answer := open(t, s, "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n")
		line, err := bufio.NewReader(answer).ReadString('\n')
		if err != nil || line != "HTTP/1.1 429 Too Many Requests\r\n" {
			t.Errorf("%s: first line %q, %v", f.Name, line, err)
		}
		if took := time.Since(start); took > wire.Timeout/2 {
			t.Errorf("%s: the answer took %v", f.Name, took)
		}
	}
}
