package adaptertest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/must"
)

// guardedAndNot returns servers of the same handler: without a guard, with one, and with one whose rule needs the outcome.
func guardedAndNot(t *testing.T, a Adapter, h http.HandlerFunc, http2 bool) map[string]*server {
	free := App{Routes: []Route{{Pattern: "/", Handler: h}}}
	guarded := App{Guards: []Guard{{Limiter: counting(100)}}, Routes: free.Routes}
	l, _, _ := holding()
	watched := App{Guards: []Guard{{Limiter: l}, {Limiter: l}}, Routes: free.Routes}
	return map[string]*server{
		"without the middleware": serveHandler(t, a.Build(free), http2),
		"with the middleware":    serveHandler(t, a.Build(guarded), http2),
		"with CostAfter":         serveHandler(t, a.Build(watched), http2),
	}
}

// innermost returns the writer of net/http beneath a framework's writer.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = u.Unwrap()
	}
}

// testResponseWriter checks that the handler gets the same writer as without the middleware.
func testResponseWriter(t *testing.T, a Adapter) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		_, flusher := w.(http.Flusher)
		_, hijacker := w.(http.Hijacker)
		_, readerFrom := w.(io.ReaderFrom)
		_, inner := innermost(w).(io.ReaderFrom)
		deadline := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout))
		_, _ = fmt.Fprintf(w, "%T %T %v %v %v %v %v", w, innermost(w), flusher, hijacker, readerFrom, inner, deadline)
	}
	for _, http2 := range []bool{false, true} {
		seen := map[string]bool{}
		for name, s := range guardedAndNot(t, a, h, http2) {
			if name != "with CostAfter" {
				seen[s.get("/").body] = true
			}
		}
		if len(seen) != 1 {
			t.Errorf("the writer differs: %v", seen)
		}
	}
}

// testStreaming checks server-sent events: each event reaches the client before the next is written.
func testStreaming(t *testing.T, a Adapter) {
	for _, http2 := range []bool{false, true} {
		next := make(chan bool)
		h := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
				if i == 0 {
					w.(http.Flusher).Flush()
				} else if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				select {
				case <-next:
				case <-r.Context().Done():
				}
			}
		}
		for name, s := range guardedAndNot(t, a, h, http2) {
			resp, err := s.Client().Get(s.URL)
			if err != nil {
				t.Fatal(name, err)
			}
			lines := bufio.NewReader(resp.Body)
			for i := range 3 {
				line, err := lines.ReadString('\n')
				if _, blank := lines.ReadString('\n'); err != nil || blank != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("%s: line %q, %v", name, line, err)
				}
				next <- true
			}
			resp.Body.Close()
		}
	}
}

// testHijack checks that a handler can take the connection over, as WebSocket libraries do.
func testHijack(t *testing.T, a Adapter) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.CopyN(conn, conn, 5)
	}
	for name, s := range guardedAndNot(t, a, h, false) {
		t.Run(name, func(t *testing.T) { upgrade(t, s.Listener.Addr().String()) })
	}
}

// upgrade talks to a server that echoes five bytes after switching protocols.
func upgrade(t *testing.T, address string) {
	conn := must.Get(net.Dial("tcp", address))(t)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	answer := bufio.NewReader(conn)
	resp := must.Get(http.ReadResponse(answer, nil))(t)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", resp.StatusCode)
	}
	_, _ = io.WriteString(conn, "hello")
	echoed := make([]byte, 5)
	if _, err := io.ReadFull(answer, echoed); err != nil || string(echoed) != "hello" {
		t.Errorf("echoed %q, %v", echoed, err)
	}
}

// testEarlyHints checks that 103 reaches the client before the response. Frameworks treat any status as final, so the
// handler writes to the innermost writer.
func testEarlyHints(t *testing.T, a Adapter) {
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		innermost(w).WriteHeader(http.StatusEarlyHints)
		ok(w, r)
	}
	for _, http2 := range []bool{false, true} {
		for name, s := range guardedAndNot(t, a, h, http2) {
			var hints atomic.Int32
			trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				if code == http.StatusEarlyHints && h.Get("Link") != "" {
					hints.Add(1)
				}
				return nil
			}}
			r, _ := http.NewRequest(http.MethodGet, s.URL, nil)
			got := s.send(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
			if got.StatusCode != http.StatusOK || got.body != "ok" || hints.Load() != 1 {
				t.Errorf("%s: status %d, body %q, %d hints", name, got.StatusCode, got.body, hints.Load())
			}
		}
	}
}

// testExpectContinue checks that the server asks for the body when the handler reads it, and never for a denied
// request.
func testExpectContinue(t *testing.T, a Adapter) {
	h := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	s := a.serve(t, App{Guards: []Guard{{Limiter: counting(1)}}, Routes: []Route{{Pattern: "/", Handler: h}}})
	s.Client().Transport.(*http.Transport).ExpectContinueTimeout = timeout
	for _, row := range []struct {
		why    string
		status int
		asked  bool
	}{{"allowed", 200, true}, {"denied", 429, false}} {
		var asked atomic.Bool
		trace := &httptrace.ClientTrace{Got100Continue: func() { asked.Store(true) }}
		r, _ := http.NewRequest(http.MethodPost, s.URL, strings.NewReader("body"))
		r.Header.Set("Expect", "100-continue")
		got := s.send(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
		got.wantStatus(t, row.status)
		if asked.Load() != row.asked || row.asked != (got.body == "body") {
			t.Errorf("%s: asked for the body: %v, answer %q", row.why, asked.Load(), got.body)
		}
	}
}
