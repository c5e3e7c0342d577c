package adaptertest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

// A turns is a store whose requests have their turn after a wait. It counts the charges that were not refunded.
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

// testWaitingBody checks that nobody reads the body of a request that waits: over HTTP/1 the server does not ask for
// it, and over HTTP/2 the client sends no more than flow control allows.
func testWaitingBody(t *testing.T, a Adapter) {
	const wait, size, most = 150 * time.Millisecond, 16 << 20, 4 << 20
	for _, http2 := range []bool{false, true} {
		l, _, _ := waitFor(wait)
		var sent, before atomic.Int64
		s := serveHandler(t, a.Build(handling(func(w http.ResponseWriter, r *http.Request) {
			before.Store(sent.Load())
			_, _ = io.Copy(io.Discard, r.Body)
			ok(w, r)
		}, Guard{Limiter: l})), http2)
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

type countedZeros struct{ n *atomic.Int64 }

func (z countedZeros) Read(b []byte) (int, error) {
	z.n.Add(int64(len(b)))
	return len(b), nil
}

// testWaitingClientGone checks that if a client disconnects while its request waits, the handler never runs, and the
// request's place and turn are free again.
func testWaitingClientGone(t *testing.T, a Adapter) {
	for _, way := range []struct{ http2, body bool }{{false, false}, {true, false}, {true, true}} {
		l, store, begun := waitFor(time.Hour)
		<-disconnect(t, a, handling(mustNotServe(t), Guard{Limiter: l}), way.http2, way.body, begun)
		waiting, charged := l.StoreHealth().Waiting, store.charged.Load()
		expect.True(t, waiting == 0 && charged == 0, "%+v: %d wait, %d charged", way, waiting, charged)
	}
}

// testWaitingClientGoneUnnoticed checks a client that disconnects over HTTP/1 before its body is read, which net/http
// does not notice: the request's place is free at its turn, and the handler cannot read the body.
func testWaitingClientGoneUnnoticed(t *testing.T, a Adapter) {
	l, store, begun := waitFor(150 * time.Millisecond)
	app := handling(func(_ http.ResponseWriter, r *http.Request) {
		expect.Fails(t, expect.ErrorOf(io.Copy(io.Discard, r.Body)), "the handler has read the body of a client that is gone")
	}, Guard{Limiter: l})
	<-disconnect(t, a, app, false, true, begun)
	waiting, charged := l.StoreHealth().Waiting, store.charged.Load()
	expect.True(t, waiting == 0 && charged == 1, "%d wait, %d charged", waiting, charged)
}

// disconnect sends a request, with an endless body or without one, and disconnects when begun gets a value. It returns
// a channel that is closed when app has served the request.
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
	ctx, cancel := context.WithCancel(t.Context())
	s := a.serve(t, handling(mustNotServe(t), Guard{Limiter: l}), func(s *http.Server) {
		s.BaseContext = func(net.Listener) context.Context { return ctx }
	})
	go func() {
		<-begun
		cancel()
	}()
	got := s.get("/")
	body := got.problem(t, http.StatusServiceUnavailable)
	expect.Equal(t, body["type"], problemTypes+"temporary-reduced-capacity", "body %v", body)
	if limiting := got.limiting(); !slices.Equal(limiting, []string{"Retry-After: 5"}) || store.charged.Load() != 0 {
		t.Errorf("fields %v, %d charged", limiting, store.charged.Load())
	}
}

// testWaitingAndTimeouts checks that a request whose turn comes after the server's timeouts is served, body and all.
func testWaitingAndTimeouts(t *testing.T, a Adapter) {
	const serverTimeout, wait = 500 * time.Millisecond, 800 * time.Millisecond
	var all sync.WaitGroup
	defer all.Wait()
	for _, http2 := range []bool{false, true} {
		l, store, _ := waitFor(wait)
		app := handling(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }, Guard{Limiter: l})
		s := serveHandler(t, a.Build(app), http2, timeouts(serverTimeout))
		all.Go(func() {
			resp, err := s.Client().Post(s.URL, "text/plain", strings.NewReader("body"))
			if err != nil {
				t.Errorf("HTTP/2 %v: %v", http2, err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "body" || resp.StatusCode != http.StatusOK || store.charged.Load() != 1 {
				t.Errorf("HTTP/2 %v: %d %q, %v; charged %d", http2, resp.StatusCode, body, err, store.charged.Load())
			}
		})
	}
}

// timeouts limits the time for requests and for responses.
func timeouts(d time.Duration) func(*http.Server) {
	return func(s *http.Server) { s.ReadTimeout, s.WriteTimeout = d, d }
}

// bookings is a store in memory that counts its calls. The limiter treats it as a remote store.
type bookings struct {
	core.MemoryStore
	calls   atomic.Int64
	longest atomic.Int64 // MaxWait
}

func (s *bookings) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.calls.Add(1)
	for i := range claims {
		s.longest.Store(max(s.longest.Load(), int64(claims[i].MaxWait)))
	}
	return s.MemoryStore.Take(ctx, claims, dst)
}

func (s *bookings) Settle(ctx context.Context, settlements []core.Settlement) error {
	s.calls.Add(1)
	return s.MemoryStore.Settle(ctx, settlements)
}

// bookingsOf returns a limiter of two per second over a new store. A request may wait for an hour.
func bookingsOf(more ...core.Rule) (*core.Limiter, *bookings) {
	s := new(bookings)
	rules := append(more, core.Rule{Name: "r", Key: anyone, Limits: []core.Limit{core.PerSecond(2).WithBurst(1)}, MaxWait: time.Hour})
	return core.Must(core.New(rules, core.WithStore(s), core.WithTimeout(timeout), core.WithLogger(slog.New(slog.DiscardHandler)))), s
}

// testWaitingWithinATimeout checks that no request waits beyond the server's WriteTimeout if a writer around the response
// hides the way to extend it.
func testWaitingWithinATimeout(t *testing.T, a Adapter) {
	l, store := bookingsOf()
	h := a.Build(single(Guard{Limiter: l}))
	s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(struct {
			http.ResponseWriter
			http.Flusher
			http.Hijacker
		}{w, w.(http.Flusher), w.(http.Hijacker)}, r)
	}), false, timeouts(10*time.Second))
	s.get("/").wantStatus(t, http.StatusOK)
	if longest := time.Duration(store.longest.Load()); longest > 10*time.Second || longest < 9*time.Second {
		t.Errorf("the request may wait %v, want nearly the timeout", longest)
	}
}

// testWaitingWithinADeadline checks that requests whose turn comes after the deadline of their context get a 429, nearly all in one call of the store.
func testWaitingWithinADeadline(t *testing.T, a Adapter) {
	const requests = 30
	l, store := bookingsOf()
	h := a.Build(single(Guard{Limiter: l}))
	s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
	}), false)
	var all sync.WaitGroup
	var served, denied atomic.Int64
	for range requests {
		all.Go(func() {
			begun := time.Now()
			resp, err := s.Client().Get(s.URL)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusOK:
				served.Add(1)
			case resp.StatusCode == http.StatusServiceUnavailable && time.Since(begun) >= time.Second: // the machine was busy at its turn
			case resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "1":
				denied.Add(1)
			default:
				t.Errorf("%d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
			}
		})
	}
	if all.Wait(); served.Load() == 0 || denied.Load() == 0 || store.calls.Load() > requests*3/2 {
		t.Errorf("%d served, %d denied, %d calls of the store for %d requests", served.Load(), denied.Load(), store.calls.Load(), requests)
	}
}

// testWaitingHoldsNothing checks that a waiting request takes no place under another rule.
func testWaitingHoldsNothing(t *testing.T, a Adapter) {
	l, store := bookingsOf(core.Rule{Name: "places", Key: anyone, Limits: []core.Limit{core.AtOnce(1)}})
	s := a.serve(t, handling(func(w http.ResponseWriter, r *http.Request) {
		expect.Equal(t, store.Stats().Held, 1, "places held while one handler runs")
		ok(w, r)
	}, Guard{Limiter: l}))
	s.get("/").wantStatus(t, http.StatusOK)
	done := make(chan bool)
	go func() {
		defer close(done)
		if resp, err := s.Client().Get(s.URL); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%+v, %v", resp, err)
		} else {
			_ = resp.Body.Close()
		}
	}()
	for waiting := false; ; {
		select {
		case <-done:
			expect.True(t, waiting, "the request did not wait")
			return
		case <-time.After(time.Millisecond):
		}
		held := store.Stats().Held
		if l.StoreHealth().Waiting == 1 {
			waiting = true
			expect.Equal(t, held, 0, "places held while the request waits")
		}
	}
}
