package responses

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
)

// TestReaderFrom checks that files can be sent without copying them through this process: net/http's own writer is within
// reach, and for net/http and chi it is what the handler gets.
func TestReaderFrom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	content := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range apps.Frameworks {
		for name, l := range limiters(1) {
			t.Run(f.Name+"/"+name, func(t *testing.T) {
				got := wire.Serve(t, f.Build(apps.Limited(l, func(w http.ResponseWriter, r *http.Request) {
					wantReaderFrom(t, f.Name, w)
					http.ServeFile(w, r, file)
				})), false).Get("/")
				got.WantStatus(t, 200)
				if got.Body != string(content) {
					t.Errorf("got %d bytes that are not the %d of the file", len(got.Body), len(content))
				}
			})
		}
	}
}

func wantReaderFrom(t *testing.T, framework string, w http.ResponseWriter) {
	_, direct := w.(io.ReaderFrom)
	if _, beneath := innermost(w).(io.ReaderFrom); !beneath || !direct && (framework == "stdlib" || framework == "chi") {
		t.Errorf("writer %T on %T: io.ReaderFrom directly %v, beneath %v", w, innermost(w), direct, beneath)
	}
}

// TestSameWriter checks that the handler gets the same writer as without the limiter.
func TestSameWriter(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintf(w, "%T %T", w, innermost(w)) }
	each(t, func(t *testing.T, f apps.Framework, http2 bool) {
		with := wire.Serve(t, f.Build(apps.Limited(wire.PerHour(1), h)), http2).Get("/")
		without := wire.Serve(t, f.Build(apps.App{Routes: []apps.Route{{Pattern: "/", Handler: h}}}), http2).Get("/")
		if with.Body != without.Body {
			t.Errorf("writer %s with the limiter, %s without", with.Body, without.Body)
		}
	})
}

// TestHijack checks that a handler can take the connection over.
func TestHijack(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = buffered.Flush()
		_, _ = io.CopyN(conn, buffered, 5)
	}
	for _, f := range apps.Frameworks {
		for name, l := range limiters(1) {
			t.Run(f.Name+"/"+name, func(t *testing.T) {
				conn, answer := open(t, wire.Serve(t, f.Build(apps.Limited(l, h)), false),
					"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				resp, err := http.ReadResponse(answer, nil)
				if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
					t.Fatalf("%v, %v", resp, err)
				}
				_, _ = io.WriteString(conn, "hello")
				if echo, err := io.ReadAll(answer); string(echo) != "hello" {
					t.Errorf("echo %q, %v", echo, err)
				}
			})
		}
	}
}

// open connects to s, sends text and returns the connection and what comes back.
func open(t *testing.T, s *wire.Server, text string) (net.Conn, *bufio.Reader) {
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(wire.Timeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// TestTrailers checks that the handler's trailers arrive, and that no rate limit header gets into them.
func TestTrailers(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "ok")
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
	}
	eachOf(t, 1, h, func(t *testing.T, s *wire.Server) {
		got := s.Get("/")
		wire.WantRemaining(t, got.Header, "0")
		if got.Body != "ok" || len(got.Trailer) != 2 || got.Trailer.Get("X-Sum") != "42" || got.Trailer.Get("X-Late") != "yes" {
			t.Errorf("body %q, trailers %v", got.Body, got.Trailer)
		}
	})
}

// TestHead checks that HEAD is answered as GET is, without a body, whether it is admitted or denied.
func TestHead(t *testing.T) {
	each(t, func(t *testing.T, f apps.Framework, http2 bool) {
		get := wire.Serve(t, f.Build(apps.Limited(wire.PerHour(1), wire.OK)), http2)
		head := wire.Serve(t, f.Build(apps.Limited(wire.PerHour(1), wire.OK)), http2)
		for _, status := range []int{200, 429} {
			want, got := get.Get("/"), head.Do(http.MethodHead, "/")
			want.WantStatus(t, status)
			got.WantStatus(t, status)
			if got.Body != "" || want.Body == "" {
				t.Errorf("%d: HEAD has body %q, GET %q", status, got.Body, want.Body)
			}
			for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Used", "X-RateLimit-Resource", "Cache-Control"} {
				if g, w := got.Header.Get(name), want.Header.Get(name); g != w {
					t.Errorf("%d: HEAD says %s: %q, GET %q", status, name, g, w)
				}
			}
			if (got.Header.Get("Retry-After") == "") != (status == 200) || got.Header.Get("X-RateLimit-Reset") == "" {
				t.Errorf("%d: HEAD says %v", status, got.Header)
			}
			if typ := got.Header.Get("Content-Type"); status == 429 && typ != "" {
				t.Errorf("a denied HEAD has the type %q of a body that it does not have", typ)
			}
		}
	})
}
