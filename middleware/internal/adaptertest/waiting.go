package adaptertest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A turns is a store whose requests have their turn after a wait. It counts what they were charged and have not given back.
type turns struct {
	script
	charged atomic.Int64
}

func (s *turns) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.charged.Add(1)
	return s.script.Take(ctx, claims, dst)
}

func (s *turns) Settle(_ context.Context, settlements []core.Settlement) error {
	for _, one := range settlements {
		if one.Final == 0 && one.Wait == s.results[0].Wait {
			s.charged.Add(-1)
		}
	}
	return nil
}

// waitFor returns a limiter whose requests wait for d, its store, and a channel that gets a value when a request begins to wait.
func waitFor(d time.Duration) (*core.Limiter, *turns, <-chan bool) {
	r := allowed("r", core.PerMinute(60), 0, time.Second, time.Minute)
	r.Wait = d
	s, begun := &turns{script: script{at: noon, results: []core.Result{r}}}, make(chan bool, 9)
	rule := core.Rule{Name: "r", Key: anyone, Limits: []core.Limit{core.PerMinute(60)}, MaxWait: time.Hour}
	observe := func(_ context.Context, o *core.Observation) {
		if o.Wait > 0 {
			begun <- true
		}
	}
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(s), core.WithTimeout(timeout), core.WithObserver(observe),
		core.WithLogger(slog.New(slog.DiscardHandler))))
	return l, s, begun
}

// testWaiting checks that a request that waits is served after its wait, with the headers of the decision.
func testWaiting(t *testing.T, a Adapter) {
	const wait = 150 * time.Millisecond
	l, s, _ := waitFor(wait)
	begun := time.Now()
	got := a.serve(t, single(Guard{Limiter: l})).get("/")
	got.wantStatus(t, http.StatusOK)
	got.wantLimiting(t, "X-Ratelimit-Limit: 60", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Used: 60", "X-Ratelimit-Reset: 1767268801",
		"X-Ratelimit-Resource: r")
	if took := time.Since(begun); took < wait || s.charged.Load() != 1 {
		t.Errorf("served after %v, charged %d; want %v and 1", took, s.charged.Load(), wait)
	}
}

// testWaitingBody checks that nobody reads the body of a request that waits: over HTTP/1 the client is not asked for
// it, and over HTTP/2 it gets no further than flow control lets it.
func testWaitingBody(t *testing.T, a Adapter) {
	const wait, size, most = 150 * time.Millisecond, 16 << 20, 4 << 20
	for _, http2 := range []bool{false, true} {
		l, _, _ := waitFor(wait)
		var sent, before atomic.Int64
		app := a.Build(App{Guards: []Guard{{Limiter: l}}, Routes: []Route{{Pattern: "/", Handler: func(w http.ResponseWriter, r *http.Request) {
			before.Store(sent.Load())
			_, _ = io.Copy(io.Discard, r.Body)
			ok(w, r)
		}}}})
		s := serveHandler(t, app, http2)
		s.Client().Transport.(*http.Transport).ExpectContinueTimeout = timeout
		r, _ := http.NewRequest(http.MethodPost, s.URL, io.LimitReader(countedZeros{&sent}, size))
		r.Header.Set("Expect", "100-continue")
		if http2 {
			r.Header.Del("Expect")
		}
		s.send(r).wantStatus(t, http.StatusOK)
		if got := before.Load(); got > most || !http2 && got > 0 || sent.Load() < size {
			t.Errorf("HTTP/2 %v: %d bytes of %d were sent before the turn of the request", http2, got, sent.Load())
		}
	}
}

// countedZeros counts the bytes that are read from it.
type countedZeros struct{ n *atomic.Int64 }

func (z countedZeros) Read(b []byte) (int, error) {
	z.n.Add(int64(len(b)))
	return len(b), nil
}

// testWaitingClientGone checks that the handler of a request whose client disconnects while it waits never runs, and
// that its place and its turn are free.
func testWaitingClientGone(t *testing.T, a Adapter) {
	for _, way := range []struct{ http2, body bool }{{false, false}, {true, false}, {true, true}} {
		l, store, begun := waitFor(time.Hour)
		app := single(Guard{Limiter: l})
		app.Routes[0].Handler = func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }
		<-disconnect(t, a, app, way.http2, way.body, begun)
		if waiting, charged := l.StoreHealth().Waiting, store.charged.Load(); waiting != 0 || charged != 0 {
			t.Errorf("%+v: %d wait, %d charged", way, waiting, charged)
		}
	}
}

// testWaitingClientGoneUnnoticed checks what becomes of a request over HTTP/1 whose client disconnects before its body
// was read, which net/http does not notice: its place is free at its turn, and its handler cannot read the body.
func testWaitingClientGoneUnnoticed(t *testing.T, a Adapter) {
	l, store, begun := waitFor(150 * time.Millisecond)
	app := single(Guard{Limiter: l})
	app.Routes[0].Handler = func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			t.Error("the handler has read the body of a client that is gone")
		}
	}
	<-disconnect(t, a, app, false, true, begun)
	if waiting, charged := l.StoreHealth().Waiting, store.charged.Load(); waiting != 0 || charged != 1 {
		t.Errorf("%d wait, %d charged", waiting, charged)
	}
}

// disconnect sends a request, with a body that does not end or without one, whose client disconnects when begun gets a
// value. It returns a channel that is closed when app has served it.
func disconnect(t *testing.T, a Adapter, app App, http2, body bool, begun <-chan bool) (ended chan bool) {
	h := a.Build(app)
	ended = make(chan bool)
	s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, r)
	}), http2)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	var sent io.Reader
	if body {
		sent = endless{ctx}
	}
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, sent)
	if resp, err := s.Client().Do(r); err == nil {
		t.Errorf("status %d", resp.StatusCode)
		_ = resp.Body.Close()
	}
	return ended
}

// An endless body has nothing to read until its context ends.
type endless struct{ ctx context.Context }

func (b endless) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// testWaitingAtShutdown checks that a request that waits while the server cancels its base context gets a 503.
func testWaitingAtShutdown(t *testing.T, a Adapter) {
	l, store, begun := waitFor(time.Hour)
	app := single(Guard{Limiter: l})
	app.Routes[0].Handler = func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{httptest.NewUnstartedServer(a.Build(app)), t, "application/problem+json"}
	if a.ProblemType != "" {
		s.problemType = a.ProblemType
	}
	s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	s.Start()
	defer s.Close()
	go func() {
		<-begun
		cancel()
	}()
	got := s.get("/")
	if body := got.problem(t, http.StatusServiceUnavailable); body["type"] != problemTypes+"temporary-reduced-capacity" {
		t.Errorf("body %v", body)
	}
	if limiting := got.limiting(); !slices.Equal(limiting, []string{"Retry-After: 5"}) || store.charged.Load() != 0 {
		t.Errorf("fields %v, %d charged", limiting, store.charged.Load())
	}
}
