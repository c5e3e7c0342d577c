package adaptertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// A settler is a store that admits every request and records what it is to settle.
type settler struct {
	script
	settled []core.Settlement
}

func (s *settler) Settle(_ context.Context, settlements []core.Settlement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = append(s.settled, settlements...)
	return nil
}

// outcomes records how requests have ended.
type outcomes struct {
	mu   sync.Mutex
	seen []core.Outcome
}

// final is a Rule.CostAfter.
func (o *outcomes) final(_ *http.Request, outcome core.Outcome) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, outcome)
	return outcome.Cost
}

// holding returns a limiter that holds the cost of each request, with its store and the outcomes that its rule sees.
func holding() (*core.Limiter, *settler, *outcomes) {
	ends := new(outcomes)
	store := &settler{script: script{at: noon, results: []core.Result{half}}}
	return newLimiter(store, core.Rule{Name: "api", Key: anyone, Limits: []core.Limit{perMinute}, CostAfter: ends.final}), store, ends
}

var big = strings.Repeat("x", 100_000)

// An ending is a way in which a request can end.
type ending struct {
	why    string
	handle http.HandlerFunc
	status []int // of the outcome; frameworks may differ
	bytes  int64
	err    bool
}

var endings = []ending{
	{"nothing written", func(http.ResponseWriter, *http.Request) {}, []int{200}, 0, false},
	{"a body", ok, []int{200}, 2, false},
	{"a status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, []int{401}, 0, false},
	{"a status and a body", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, []int{403}, 3, false},
	{"no body allowed", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		_, _ = io.WriteString(w, "lost")
	}, []int{204}, 0, false},
	{"a flush, then a status that comes too late", func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		w.WriteHeader(http.StatusUnauthorized)
	}, []int{200}, 0, false},
	{"a response of http.TimeoutHandler", func(w http.ResponseWriter, r *http.Request) {
		waits := func(http.ResponseWriter, *http.Request) { <-r.Context().Done() } // until the response has ended
		http.TimeoutHandler(http.HandlerFunc(waits), time.Nanosecond, "late").ServeHTTP(w, r)
	}, []int{503}, 4, false},
	{"an upgrade", func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 { // has none
			w.WriteHeader(http.StatusSwitchingProtocols)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = conn.Close()
	}, []int{101, 200}, 0, false}, // gin reports 200
	{"a body from a reader", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader(big)})
	}, []int{200}, int64(len(big)), false},
	{"an empty reader, then an error", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("")})
		http.Error(w, "no", http.StatusUnauthorized)
	}, []int{401}, 3, false},
	{"a reader that fails at once, then an error", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, iotest.ErrReader(io.ErrUnexpectedEOF))
		http.Error(w, "no", http.StatusUnauthorized)
	}, []int{401}, 3, false},
	{"a panic", func(http.ResponseWriter, *http.Request) { panic("oops") }, []int{500}, 0, true},
	{"a panic after the status", func(w http.ResponseWriter, r *http.Request) {
		ok(w, r)
		_ = http.NewResponseController(w).Flush()
		panic("oops")
	}, []int{200}, 2, true},
	{"an aborted handler", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, []int{500}, 0, true},
}

// testOutcome checks the outcome that Rule.CostAfter gets for each way in which a request can end.
func testOutcome(t *testing.T, a Adapter) {
	for _, row := range endings {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", row.why, http2), func(t *testing.T) {
				o := a.outcomeOf(t, row.handle, http2, func(s *server) {
					if resp, err := s.Client().Get(s.URL); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
				})
				expect.True(t, slices.Contains(row.status, o.Status) && o.Bytes == row.bytes && (o.Err != nil) == row.err && o.Cost == 1,
					"the outcome is %+v, want %+v", o, row)
			})
		}
	}
}

// testOutcomeOfHead checks that the response to HEAD has no body, even if the handler writes one, as a handler for GET does, and
// that a client has not disconnected because an HTTP/2 server has ended the stream.
func testOutcomeOfHead(t *testing.T, a Adapter) {
	for _, http2 := range []bool{false, true} {
		o := a.outcomeOf(t, func(w http.ResponseWriter, r *http.Request) {
			ok(w, r)
			if http2 {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		}, http2, func(s *server) { s.do(http.MethodHead, "/").wantStatus(t, 200) })
		expect.True(t, o.Status == http.StatusOK && o.Bytes == 0 && o.Err == nil, "HTTP/2 %v: the outcome is %+v", http2, o)
	}
}

// outcomeOf returns the outcome of the request that ask sends to a handler. The limiter is mounted three times, which counts once.
func (a Adapter) outcomeOf(t *testing.T, handle http.HandlerFunc, http2 bool, ask func(*server)) core.Outcome {
	l, store, ends := holding()
	g := Guard{Limiter: l}
	app := a.Build(App{Guards: []Guard{g, g}, Routes: []Route{{Pattern: "/", Guards: []Guard{g}, Handler: handle}}})
	ended := make(chan bool)
	s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		app.ServeHTTP(w, r)
	}), http2)
	s.Client().Transport.(*http.Transport).DisableKeepAlives = true
	ask(s)
	<-ended
	must.True(t, len(ends.seen) == 1 && len(store.settled) == 1,
		"the outcomes are %+v, settled was %+v; want one of each", ends.seen, store.settled)
	c := store.settled[0]
	expect.True(t, c.Held && c.Final == ends.seen[0].Cost && !c.At.IsZero(), "settled was %+v", c)
	return ends.seen[0]
}

// testClientGone checks that the outcome shows that the client has disconnected, even if the handler responds with 200.
func testClientGone(t *testing.T, a Adapter) {
	for _, http2 := range []bool{false, true} {
		started := make(chan bool)
		o := a.outcomeOf(t, func(w http.ResponseWriter, r *http.Request) {
			close(started)
			<-r.Context().Done()
			ok(w, r)
		}, http2, func(s *server) {
			ctx, cancel := context.WithCancel(t.Context())
			r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil))(t)
			go func() {
				<-started
				cancel()
			}()
			if resp, err := s.Client().Do(r); err == nil {
				_ = resp.Body.Close()
			}
		})
		expect.ErrorIs(t, o.Err, context.Canceled, "HTTP/2 %v: the outcome is %+v (one of a client that has gone)", http2, o)
	}
}

// testSetCost checks that a handler can set the final cost of its request while it runs, and not later.
func testSetCost(t *testing.T, a Adapter) {
	var during, other, negative bool
	var ctx context.Context
	o := a.outcomeOf(t, func(_ http.ResponseWriter, r *http.Request) {
		ctx = r.Context()
		during = core.SetCost(ctx, "api", 58)
		other, negative = core.SetCost(ctx, "elsewhere", 1), core.SetCost(ctx, "api", -1)
	}, false, func(s *server) { s.get("/").wantStatus(t, 200) })
	expect.True(t, o.Cost == 58 && during && !other && !negative && !core.SetCost(ctx, "api", 1),
		"the outcome is %+v; SetCost says %v, %v for another rule, %v below 0", o, during, other, negative)
}

// optional lists the optional interfaces of a ResponseWriter.
func optional(w http.ResponseWriter) string {
	_, flusher := w.(http.Flusher)
	_, flushError := w.(interface{ FlushError() error })
	_, hijacker := w.(http.Hijacker)
	_, pusher := w.(http.Pusher)
	_, readerFrom := w.(io.ReaderFrom)
	_, stringWriter := w.(io.StringWriter)
	_, deadlines := w.(interface{ SetReadDeadline(time.Time) error })
	_, duplex := w.(interface{ EnableFullDuplex() error })
	_, closeNotifier := w.(interface{ CloseNotify() <-chan bool })
	return fmt.Sprint(closeNotifier, flusher, flushError, hijacker, pusher, readerFrom, stringWriter, deadlines, duplex)
}

// testWatchedWriter checks that a handler whose outcome a rule needs finds the same optional interfaces as without the
// middleware, and that the server sends what the handler writes.
func testWatchedWriter(t *testing.T, a Adapter) {
	l, _, _ := holding()
	for _, http2 := range []bool{false, true} {
		var seen []string
		for _, guards := range [][]Guard{nil, {{Limiter: l}}} {
			s := serveHandler(t, a.Build(App{Guards: guards, Routes: []Route{{Pattern: "/", Handler: func(w http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery == "short" { // but longer than what net/http sniffs
					_, _ = io.CopyN(w, strings.NewReader(big), 700)
					return
				}
				c := http.NewResponseController(w)
				seen = append(seen, fmt.Sprintf("%v %T %v %v %v", optional(w), innermost(w), c.SetWriteDeadline(time.Now().Add(timeout)), c.EnableFullDuplex(), c.Flush()))
				n, err := io.Copy(w, bytes.NewReader(make([]byte, 1<<16)))
				expect.True(t, n == 1<<16 && err == nil, "copied %d bytes, %v", n, err)
			}}}}), http2)
			expect.Equal(t, len(s.get("/").body), 1<<16, "bytes")
			seen[len(seen)-1] += fmt.Sprint(s.get("/?short").TransferEncoding)
		}
		expect.True(t, seen[0] == seen[1], "HTTP/2 %v: without the middleware %s\nwith it %s", http2, seen[0], seen[1])
	}
}

// testResponseWriter checks that a handler whose outcome no rule needs gets the same writer as without the middleware: one of
// the same type, directly on the server's writer.
func testResponseWriter(t *testing.T, a Adapter) {
	inFlight := newLimiter(new(core.MemoryStore), core.Rule{Key: anyone, Limits: []core.Limit{core.AtOnce(2)}})
	other, _, ends := holding()
	must.Do(t, other.SetRules([]core.Rule{{Name: "api", Key: anyone, Limits: []core.Limit{perMinute}, CostAfter: ends.final,
		Match: func(*http.Request) bool { return false }}}))
	for why, l := range map[string]*core.Limiter{"no hold": counting(9), "in flight": inFlight, "a rule that does not apply": other} {
		for _, http2 := range []bool{false, true} {
			var seen []string
			for _, guards := range [][]Guard{nil, {{Limiter: l}}} {
				var came http.ResponseWriter
				app := a.Build(handling(func(w http.ResponseWriter, _ *http.Request) {
					deadline := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout))
					seen = append(seen, fmt.Sprintf("%T, directly on the server's: %v, %s, %v", w, innermost(w) == came, optional(w), deadline))
				}, guards...))
				serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					came = w
					app.ServeHTTP(w, r)
				}), http2).get("/").wantStatus(t, 200)
			}
			expect.Equal(t, seen[1], seen[0], "%s, HTTP/2 %v: the writer", why, http2)
		}
	}
}
