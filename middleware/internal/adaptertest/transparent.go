package adaptertest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// A view describes a request as the handler sees it, and as a middleware around the application sees it afterwards.
type view struct {
	inside, around string
	files          int // of its multipart form that the server has not removed
	panicked       bool
}

// lookAt describes what a handler has left in r.
func lookAt(r *http.Request) string {
	_, err := r.Body.Read(make([]byte, 1))
	return fmt.Sprintf("pattern %q, id %q, value %q, form %v, post form %v, multipart %v, trailer %v, body %v, remote %v, context %v",
		r.Pattern, r.PathValue("id"), r.PathValue("extra"), r.Form, r.PostForm, r.MultipartForm != nil, r.Trailer, err, r.RemoteAddr == "changed",
		r.Context().Value(contextKey{}))
}

type contextKey struct{}

// observed serves app and then records the request in v. It recovers from panics, as many middlewares do.
func observed(app http.Handler, v *view) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v.panicked = recover() != nil; v.panicked {
				w.WriteHeader(http.StatusInternalServerError)
			}
			v.around = lookAt(r)
		}()
		app.ServeHTTP(w, r)
	})
}

// testTransparency serves each request without a limiter and with two nested ones. A middleware around the application sees the
// same changes to the request in both cases, and the server removes the files of multipart forms. (A router that copies the
// request, like chi, loses some changes even without a limiter.)
func testTransparency(t *testing.T, a Adapter) {
	for why, handle := range map[string]func(r *http.Request){
		"nothing":             func(*http.Request) {},
		"body":                func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		"form":                func(r *http.Request) { _ = r.ParseForm() },
		"multipart":           func(r *http.Request) { _ = r.ParseMultipartForm(1) },
		"multipart and panic": func(r *http.Request) { _ = r.ParseMultipartForm(1); panic("oops") },
		"exchanged body":      func(r *http.Request) { r.Body = http.NoBody },
		"address":             func(r *http.Request) { r.RemoteAddr = "changed" },
		"path value":          func(r *http.Request) { r.SetPathValue("extra", "1") },
		"context in place":    func(r *http.Request) { *r = *r.WithContext(context.WithValue(r.Context(), contextKey{}, 1)) },
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", why, http2), func(t *testing.T) {
				without := a.upload(t, handle, http2, nil)
				held, _, _ := holding()
				for _, l := range []*core.Limiter{counting(9), held} {
					with := a.upload(t, handle, http2, []Guard{{Limiter: l}})
					expect.True(t, without == with, "without the middleware\n%+v\nwith it\n%+v", without, with)
				}
			})
		}
	}
}

// upload posts a form with a file to an application and returns what was seen of the request.
func (a Adapter) upload(t *testing.T, handle func(*http.Request), http2 bool, guards []Guard) (v view) {
	files := t.TempDir()
	t.Setenv("TMPDIR", files)
	s := serveHandler(t, observed(a.Build(App{Guards: guards, Routes: []Route{{Pattern: "/users/{id}", Guards: guards, Handler: func(_ http.ResponseWriter, r *http.Request) {
		defer func() { v.inside = lookAt(r) }()
		handle(r)
	}}}}), &v), http2)
	body, contentType := form(t)
	r, err := http.NewRequest(http.MethodPost, s.URL+"/users/42?q=1", struct{ io.Reader }{body}) // of unknown length
	must.Do(t, err)
	r.Header.Set("Content-Type", contentType)
	r.Trailer = http.Header{"X-Declared": {"1"}}
	s.send(r)
	s.Close() // waits until the server has finished the request
	v.files = len(must.Get(os.ReadDir(files))(t))
	return v
}

// form returns the body of a form with a field and a file, and its content type.
func form(t *testing.T) (io.Reader, string) {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	_ = w.WriteField("a", "1")
	_, _ = must.Get(w.CreateFormFile("file", "big"))(t).Write(make([]byte, 64<<10))
	_ = w.Close()
	return &body, w.FormDataContentType()
}

// testTrailers sends a trailer that the request has not declared, which net/http adds to the server's request. If it
// reaches the handler without a limiter, it also does with a limiter.
func testTrailers(t *testing.T, a Adapter) {
	without, with := a.trailer(t, nil), a.trailer(t, []Guard{{Limiter: counting(9)}})
	if without.inside != "" && with.inside != without.inside || with.around != without.around {
		t.Errorf("without the middleware %+v, with it %+v", without, with)
	}
}

// testResponseTrailers checks that the handler's trailers reach the client, and that no rate limit header becomes a trailer.
func testResponseTrailers(t *testing.T, a Adapter) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "ok")
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
	}
	for _, http2 := range []bool{false, true} {
		for name, s := range guardedAndNot(t, a, h, http2) {
			if got := s.get("/"); got.body != "ok" || len(got.Trailer) != 2 || got.Trailer.Get("X-Sum") != "42" || got.Trailer.Get("X-Late") != "yes" {
				t.Errorf("%s, HTTP/2 %v: body %q, trailers %v", name, http2, got.body, got.Trailer)
			}
		}
	}
}

// trailer sends a chunked request with a trailer and returns where it was seen.
func (a Adapter) trailer(t *testing.T, guards []Guard) (v view) {
	handler := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		v.inside = r.Trailer.Get("X-Sum")
	}
	app := a.Build(App{Guards: guards, Routes: []Route{{Pattern: "/", Guards: guards, Handler: handler}}})
	s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		app.ServeHTTP(w, r)
		v.around = r.Trailer.Get("X-Sum")
	}), false)
	conn := must.Get(net.Dial("tcp", s.Listener.Addr().String()))(t)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 42\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must.Do(t, err)
	_ = resp.Body.Close()
	_ = conn.Close()
	s.Close()
	return v
}

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
	resp, err := http.ReadResponse(answer, nil)
	must.Do(t, err)
	defer resp.Body.Close()
	must.Equal(t, resp.StatusCode, http.StatusSwitchingProtocols, "status")
	_, _ = io.WriteString(conn, "hello")
	echoed := make([]byte, 5)
	_, err = io.ReadFull(answer, echoed)
	expect.True(t, err == nil && string(echoed) == "hello", "echoed %q, %v", echoed, err)
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
			expect.True(t, got.StatusCode == http.StatusOK && got.body == "ok" && hints.Load() == 1,
				"%s: status %d, body %q, %d hints", name, got.StatusCode, got.body, hints.Load())
		}
	}
}

// testExpectContinue checks that the server asks for the body when the handler reads it, and never for a denied request.
func testExpectContinue(t *testing.T, a Adapter) {
	h := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	s := a.serve(t, handling(h, Guard{Limiter: counting(1)}))
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
		expect.True(t, asked.Load() == row.asked && row.asked == (got.body == "body"),
			"%s: asked for the body: %v, answer %q", row.why, asked.Load(), got.body)
	}
}
