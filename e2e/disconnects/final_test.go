package disconnects

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

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

// resets are the ways to disconnect without waiting for a response.
var resets = []struct {
	name             string
	http2, pipelined bool
	run              func(t *testing.T, s *wire.Server)
}{
	{"HTTP/1.1 reset", false, false, resetConnections},
	{"HTTP/1.1 reset with more in the pipe", false, true, resetPipelines},
	{"HTTP/2 RST_STREAM", true, false, resetStreams},
}

// TestDisconnectUnderCostAfter checks that disconnecting gains no attempt under a rule that counts only failures: the cost
// held while the handler runs is charged in the end.
func TestDisconnectUnderCostAfter(t *testing.T) {
	onEach(t, func(t *testing.T, name string, f apps.Framework, open func() core.Store) {
		for _, way := range resets {
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
					checkLeft(t, l, limit-int(e.served.Load()))
				})
			}
		}
	})
}

// checkLeft checks how many requests remain.
func checkLeft(t *testing.T, l *core.Limiter, want int) {
	t.Helper()
	key, _ := wire.Anyone(nil)
	d := must.Get(l.Take(context.Background(), core.Claim{Key: key, Peek: true}))(t)
	expect.Equal(t, d.Results[0].Remaining, want, "%+v left", d)
}
