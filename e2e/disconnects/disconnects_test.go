package disconnects

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

const (
	limit    = 5
	requests = 100
)

// ways are the ways to disconnect. All but the last two wait for no response.
var ways = []struct {
	name             string
	http2, pipelined bool
	run              func(t *testing.T, s *wire.Server)
}{
	{"HTTP/1.1 reset", false, false, resetConnections},
	{"HTTP/1.1 reset with more in the pipe", false, true, resetPipelines},
	{"HTTP/2 RST_STREAM", true, false, resetStreams},
	{"HTTP/1.1 cancel", false, false, cancelRequests},
	{"HTTP/2 cancel", true, false, cancelRequests},
}

// TestDisconnect checks that the handler runs at most as often as the limit admits, and that afterwards no more remains than was unused.
// A request whose client has disconnected is charged before its handler runs, or its handler does not run.
func TestDisconnect(t *testing.T) {
	onEach(t, func(t *testing.T, name string, f apps.Framework, open func() core.Store) {
		for _, way := range ways {
			t.Run(name+"/"+way.name, func(t *testing.T) {
				var e events
				l := wire.PerHour(limit, core.WithStore(open()), core.WithTimeout(wire.Timeout), core.WithObserver(e.observe))
				s := wire.Serve(t, f.Build(apps.Limited(l, e.serve)), way.http2)
				way.run(t, s)
				for range limit {
					s.Get("/")
				}
				s.Get("/").WantStatus(t, http.StatusTooManyRequests)
				s.Close() // waits for the requests in flight
				e.check(t, l)
			})
		}
	})
}

// onEach calls run for each framework with Redis, and for the first one with a store in memory: no adapter depends on the store.
func onEach(t *testing.T, run func(t *testing.T, name string, f apps.Framework, open func() core.Store)) {
	server := redistest.Start(t)
	for _, f := range apps.Frameworks {
		run(t, "redis/"+f.Name, f, func() core.Store {
			client := server.Client(t) // with the default options of go-redis
			must.Do(t, client.FlushAll(context.Background()).Err())
			return redisstore.New(client)
		})
	}
	run(t, "memory", apps.Frameworks[0], func() core.Store { return new(core.MemoryStore) })
}

// events counts what happens in a test.
type events struct{ served, degraded atomic.Int32 }

func (e *events) serve(w http.ResponseWriter, r *http.Request) {
	e.served.Add(1)
	wire.OK(w, r)
}

func (e *events) observe(_ context.Context, o *core.Observation) {
	if o.Degraded != nil || o.Err != nil {
		e.degraded.Add(1)
	}
}

// check checks that the limiter enforced the limit, and that it did not take disconnected clients for a store that is
// down: they would get another limit, in memory. The store's timeout is long enough for a busy machine.
func (e *events) check(t *testing.T, l *core.Limiter) {
	n := e.served.Load()
	expect.True(t, n <= limit, "the handler ran %d times; the limit is %d", n, limit)
	expect.AtMost(t, e.degraded.Load(), 0, "decisions made without the store")
	h := l.StoreHealth()
	expect.True(t, !h.Down, "the breaker is open: %+v", h)
}

// eachRequest calls f for every request, a few at a time.
func eachRequest(n int, f func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// pause waits for a different time for each request, so that the server is at different stages when the client disconnects.
func pause(i int) { time.Sleep(time.Duration(i%5) * 200 * time.Microsecond) }

const get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

// resetConnections sends each request on its own connection and resets the connection.
func resetConnections(t *testing.T, s *wire.Server) {
	eachRequest(requests, func(i int) { sendAndReset(t, s.Addr(), get, i) })
}

// resetPipelines sends ten requests at once on each connection and then resets the connection.
func resetPipelines(t *testing.T, s *wire.Server) {
	ten := get + get + get + get + get + get + get + get + get + get
	eachRequest(requests/10, func(i int) { sendAndReset(t, s.Addr(), ten, i) })
}

func sendAndReset(t *testing.T, addr, text string, i int) {
	conn, err := net.DialTimeout("tcp", addr, wire.Timeout)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(wire.Timeout))
	expect.NoError(t, expect.ErrorOf(io.WriteString(conn, text)), "WriteString")
	pause(i)
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil { // Close sends RST
		t.Error(err)
	}
}

// cancelRequests sends requests with net/http's client and cancels them. Over HTTP/1.1 the client then closes the connection, over HTTP/2
// it sends RST_STREAM. The first request is not canceled: it opens the connection that HTTP/2 requests share.
func cancelRequests(t *testing.T, s *wire.Server) {
	s.Get("/").WantStatus(t, http.StatusOK)
	eachRequest(requests, func(i int) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			pause(i)
			cancel()
		}()
		resp, err := s.Client().Do(wire.Request(t, http.MethodGet, s.URL, nil).WithContext(ctx))
		if err == nil {
			resp.Body.Close()
		}
		cancel()
	})
}

// failing are handlers that respond to a wrong password in different ways.
var failing = []struct {
	name   string
	handle http.HandlerFunc
	waits  bool
}{
	{"401", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, false},
	{"200 for a client that has gone", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done(): // the client has disconnected
		case <-time.After(wire.Timeout):
		}
		wire.OK(w, r)
	}, true},
	{"panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
}

// TestDisconnectUnderCostAfter checks that disconnecting gains no attempt under a rule that counts only failures: the cost
// held while the handler runs is charged in the end.
func TestDisconnectUnderCostAfter(t *testing.T) {
	onEach(t, func(t *testing.T, name string, f apps.Framework, open func() core.Store) {
		for _, way := range ways[:3] {
			for _, h := range failing {
				if way.pipelined && h.waits {
					continue // net/http does not notice a disconnect while more requests are in the pipeline
				}
				t.Run(name+"/"+way.name+"/"+h.name, func(t *testing.T) {
					var e events
					rule := core.Every(limit, 24*time.Hour).By(wire.Anyone)
					rule.CostAfter = core.Failures
					l := core.Must(core.New([]core.Rule{rule}, core.WithStore(open()), core.WithTimeout(wire.Timeout), core.WithObserver(e.observe)))
					app := f.Build(apps.Limited(l, func(w http.ResponseWriter, r *http.Request) {
						e.served.Add(1)
						h.handle(w, r)
					}))
					var underWay sync.RWMutex // held by handlers: over HTTP/2, one may start after the server was closed
					s := wire.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						underWay.RLock()
						defer underWay.RUnlock()
						app.ServeHTTP(w, r)
					}), way.http2)
					way.run(t, s)
					s.Close()
					underWay.Lock()
					defer underWay.Unlock()
					e.check(t, l)
					d := must.Get(l.Take(context.Background(), core.Claim{Key: "const:all", Peek: true}))(t)
					expect.Equal(t, d.Results[0].Remaining, limit-int(e.served.Load()), "%+v left", d)
				})
			}
		}
	})
}
