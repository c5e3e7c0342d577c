package watch

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
)

// full is a ResponseWriter with the optional interfaces of net/http.
type full struct{ *httptest.ResponseRecorder }

func (full) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }
func (full) FlushError() error                            { return nil }
func (w full) ReadFrom(r io.Reader) (int64, error)        { return io.Copy(w.ResponseRecorder, r) }
func (w full) WriteString(s string) (int, error)          { return w.ResponseRecorder.WriteString(s) }

// broken is a ResponseWriter whose connection is lost. It counts more bytes than it gets.
type broken struct{ http.ResponseWriter }

func (broken) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrHijacked }
func (broken) Write([]byte) (int, error)                    { return 99, io.ErrClosedPipe }

// cut is a ResponseWriter whose writes may fail.
type cut struct {
	full
	fails bool
}

func (w cut) Write(p []byte) (int, error) {
	if w.fails {
		return 0, io.ErrClosedPipe
	}
	return w.full.Write(p)
}

// sizes is a ResponseWriter without optional interfaces.
type sizes struct {
	http.ResponseWriter
	writes []int
}

func (w *sizes) Write(p []byte) (int, error) {
	w.writes = append(w.writes, len(p))
	return len(p), nil
}

// hijacked is a ResponseWriter like net/http's whose connection is hijacked.
type hijacked struct{ likeHTTP1 }

func (hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrHijacked }

var watchCases = map[string]struct {
	method string
	handle func(w http.ResponseWriter)
	want   core.Outcome
}{
	"nothing":                 {"GET", func(http.ResponseWriter) {}, core.Outcome{Status: 200}},
	"the first status counts": {"GET", func(w http.ResponseWriter) { w.WriteHeader(401); w.WriteHeader(200) }, core.Outcome{Status: 401}},
	"a body begins with 200": {"GET", func(w http.ResponseWriter) { _, _ = w.Write([]byte("ok")); w.WriteHeader(401) },
		core.Outcome{Status: 200, Bytes: 2}},
	"so does a string": {"GET", func(w http.ResponseWriter) { _, _ = w.(io.StringWriter).WriteString("abc"); w.WriteHeader(401) },
		core.Outcome{Status: 200, Bytes: 3}},
	"and a body from a reader": {"GET", func(w http.ResponseWriter) {
		_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("abcd")})
		w.WriteHeader(401)
	},
		core.Outcome{Status: 200, Bytes: 4}},
	"an empty reader begins nothing": {"GET", func(w http.ResponseWriter) {
		_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("")})
		w.WriteHeader(401)
	}, core.Outcome{Status: 401}},
	"nor does a reader that fails": {"GET", func(w http.ResponseWriter) {
		_, _ = w.(io.ReaderFrom).ReadFrom(iotest.ErrReader(io.ErrUnexpectedEOF))
		w.WriteHeader(401)
	}, core.Outcome{Status: 401}},
	"an empty write begins with 200": {"GET", func(w http.ResponseWriter) {
		_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader(""))
		_, _ = w.Write(nil)
		w.WriteHeader(401)
	}, core.Outcome{Status: 200}},
	"a long body from a reader": {"GET", func(w http.ResponseWriter) {
		if n, _ := io.Copy(w, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 1024))}); n != 1024 {
			panic(n)
		}
		w.WriteHeader(401)
	}, core.Outcome{Status: 200, Bytes: 1024}},
	"and a flush":               {"GET", func(w http.ResponseWriter) { w.(http.Flusher).Flush(); w.WriteHeader(401) }, core.Outcome{Status: 200}},
	"and a flush that may fail": {"GET", func(w http.ResponseWriter) { _ = w.(interface{ FlushError() error }).FlushError(); w.WriteHeader(401) }, core.Outcome{Status: 200}},
	"hints come before":         {"GET", func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(401) }, core.Outcome{Status: 401}},
	"101 is final":              {"GET", func(w http.ResponseWriter) { w.WriteHeader(101); w.WriteHeader(401) }, core.Outcome{Status: 101}},
	"an upgrade":                {"GET", func(w http.ResponseWriter) { _, _, _ = w.(http.Hijacker).Hijack() }, core.Outcome{Status: 101}},
	"HEAD has no body":          {"HEAD", func(w http.ResponseWriter) { _, _ = w.Write([]byte("ok")) }, core.Outcome{Status: 200}},
	"a panic":                   {"GET", func(http.ResponseWriter) { panic("oops") }, core.Outcome{Status: 500, Err: outcome.ErrPanic}},
	"a panic after the status":  {"GET", func(w http.ResponseWriter) { w.WriteHeader(401); panic("oops") }, core.Outcome{Status: 401, Err: outcome.ErrPanic}},
	"no such status":            {"GET", func(w http.ResponseWriter) { w.WriteHeader(7) }, core.Outcome{Status: 500, Err: outcome.ErrPanic}},
}

// TestWatch checks the recorded outcome for everything that a handler can do to a response, in each relevant order.
func TestWatch(t *testing.T) {
	for why, row := range watchCases {
		for name, w := range map[string]http.ResponseWriter{"another": full{httptest.NewRecorder()}, "HTTP/1": likeHTTP1{full{httptest.NewRecorder()}}} {
			expect.Equal(t, outcomeOf(w, row.method, row.handle), row.want, "%s, %s", why, name)
		}
	}
	failing := func(w http.ResponseWriter) {
		_, _, _ = w.(http.Hijacker).Hijack()
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("ok"))
	}
	expect.Equal(t, outcomeOf(broken{httptest.NewRecorder()}, "GET", failing), (core.Outcome{Status: 418, Bytes: 99}), "a connection that fails")
	expect.Equal(t, outcomeOf(hijacked{likeHTTP1{full{httptest.NewRecorder()}}}, "GET", failing), (core.Outcome{Status: 418, Bytes: 2}), "a connection that is hijacked")

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.ProtoMajor = 2
	w, seen := Writer(full{httptest.NewRecorder()}, r)
	w.WriteHeader(http.StatusSwitchingProtocols)
	w.WriteHeader(http.StatusUnauthorized)
	expect.Equal(t, seen.Answer().Status, http.StatusUnauthorized, "the status after 101 of HTTP/2")

	sizes := &sizes{ResponseWriter: httptest.NewRecorder()}
	w, _ = Writer(sizes, r)
	_, err := io.Copy(w, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 1024))})
	expect.True(t, err == nil && slices.Equal(sizes.writes, []int{1024}), "io.Copy writes %d, %v, want one part", sizes.writes, err)

	for src, want := range map[io.Reader]bool{strings.NewReader("ok"): true, iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("ok"))): false} {
		w, seen = Writer(cut{full{httptest.NewRecorder()}, want}, r)
		_, err := w.(io.ReaderFrom).ReadFrom(src)
		expect.True(t, err != nil && seen.Answer().Cut == want, "%T: %v, %+v: want cut %v", src, err, seen.Answer(), want)
	}
}

// likeHTTP1 has the methods of net/http's ResponseWriter for HTTP/1.
type likeHTTP1 struct{ full }

func (likeHTTP1) CloseNotify() <-chan bool         { return nil }
func (likeHTTP1) SetReadDeadline(time.Time) error  { return nil }
func (likeHTTP1) SetWriteDeadline(time.Time) error { return nil }
func (likeHTTP1) EnableFullDuplex() error          { return nil }

// outcomeOf returns the outcome of a request to a handler that responds through w.
func outcomeOf(w http.ResponseWriter, method string, handle func(http.ResponseWriter)) core.Outcome {
	r := httptest.NewRequest(method, "/", nil)
	w, seen := Writer(w, r)
	returned := false
	func() {
		defer func() { _ = recover() }()
		handle(w)
		returned = true
	}()
	a := seen.Answer()
	a.Returned = returned
	return outcome.Of(r, a)
}

// TestWriterAllocatesOnce bounds the allocations of a watched response with the ResponseWriters of net/http.
func TestWriterAllocatesOnce(t *testing.T) {
	w := likeHTTP1{full{httptest.NewRecorder()}}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	var kept http.ResponseWriter
	if n := testing.AllocsPerRun(100, func() { kept, _ = Writer(w, r) }); n > 2 { // one more, because w becomes an interface
		t.Errorf("%v allocations for %T", n, kept)
	}
}

// TestOtherWritersKeepTheirOptionalInterfaces checks that Writer returns a writer with the same set of optional interfaces.
func TestOtherWritersKeepTheirOptionalInterfaces(t *testing.T) {
	type set struct{ flush, hijack, push, closeNotify bool }
	of := func(w http.ResponseWriter) (s set) {
		_, s.flush = w.(http.Flusher)
		_, s.hijack = w.(http.Hijacker)
		_, s.push = w.(http.Pusher)
		_, s.closeNotify = w.(closeNotifier)
		return s
	}
	type bare struct{ http.ResponseWriter }
	within := all{likeHTTP1{full{httptest.NewRecorder()}}}
	o := &other{base{ResponseWriter: bare{within}}}
	sets := make(map[set]bool)
	for _, w := range []http.ResponseWriter{
		bare{within},
		withF{o, within},
		withH{o, within},
		withP{o, within},
		withC{o, within},
		withFH{o, within, within},
		withFP{o, within, within},
		withFC{o, within, within},
		withHP{o, within, within},
		withHC{o, within, within},
		withPC{o, within, within},
		withFHP{o, within, within, within},
		withFHC{o, within, within, within},
		withFPC{o, within, within, within},
		withHPC{o, within, within, within},
		withFHPC{o, within, within, within, within},
	} {
		watched, seen := Writer(w, httptest.NewRequest(http.MethodGet, "/", nil))
		sets[of(w)] = true
		expect.True(t, of(watched) == of(w), "%+v became %+v", of(w), of(watched))
		expect.ErrorIs(t, http.NewResponseController(watched).SetReadDeadline(time.Time{}), http.ErrNotSupported, "SetReadDeadline did not fail although the wrapped writer hides it")
		if f, ok := watched.(http.Flusher); ok {
			f.Flush()
			expect.Equal(t, seen.status.Load(), 200, "%+v: a flush was not recorded", of(w))
		}
		if h, ok := watched.(http.Hijacker); ok {
			seen.status.Store(0)
			_, _, err := h.Hijack()
			expect.True(t, err == nil && seen.status.Load() == 101, "%+v: an upgrade was not recorded: %v", of(w), err)
		}
	}
	expect.Equal(t, len(sets), 16, "sets")
	deep, _ := Writer(unwraps{http.ResponseWriter(within)}, httptest.NewRequest(http.MethodGet, "/", nil))
	expect.NoError(t, http.NewResponseController(deep).SetReadDeadline(time.Time{}), "cannot set a deadline of the wrapped writer")
}

type all struct{ likeHTTP1 }

func (all) Push(string, *http.PushOptions) error { return nil }

// unwraps wraps a writer that http.ResponseController finds through Unwrap.
type unwraps struct{ http.ResponseWriter }

func (w unwraps) Unwrap() http.ResponseWriter { return w.ResponseWriter }
