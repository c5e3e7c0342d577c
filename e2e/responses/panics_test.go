package responses

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
)

// TestPanicInHandler checks that a request whose handler panics was charged, and that other requests are not affected.
func TestPanicInHandler(t *testing.T) {
	for why, value := range map[string]any{"a bug": "oops", "an abort": http.ErrAbortHandler} {
		t.Run(why, func(t *testing.T) {
			eachOf(t, 3, func(http.ResponseWriter, *http.Request) { panic(value) }, func(t *testing.T, s *wire.Server) {
				for i := range 3 {
					if resp, err := s.Client().Get(s.URL); err == nil {
						t.Errorf("request %d: status %d, want none: nothing here recovers", i+1, resp.StatusCode)
						resp.Body.Close()
					}
				}
				s.Get("/").WantStatus(t, 429)
			})
		})
	}
}

// A fuse panics once, when it is armed.
type fuse struct{ armed atomic.Bool }

func (f *fuse) trip() {
	if f.armed.CompareAndSwap(true, false) {
		panic("tripped")
	}
}

func (f *fuse) request(*http.Request) bool { f.trip(); return true }

// A callback is a callback of an application that calls f.
type callback struct {
	name    string
	rule    func(f *fuse, r *core.Rule)
	opts    func(f *fuse) []core.Option
	guard   func(f *fuse, g *apps.Guard)
	status  int // of the request that it panics in; 0: none, the connection ends
	charged int // what that request was charged
}

var callbacks = []callback{
	{name: "key func", status: 500, rule: func(f *fuse, r *core.Rule) {
		r.Key = func(r *http.Request) (string, error) { f.trip(); return wire.Anyone(r) }
	}},
	{name: "Match", status: 500, rule: func(f *fuse, r *core.Rule) { r.Match = f.request }},
	{name: "Cost", status: 500, rule: func(f *fuse, r *core.Rule) { r.Cost = func(*http.Request) int { f.trip(); return 1 } }},
	{name: "Tier", status: 500, rule: func(f *fuse, r *core.Rule) { r.Tier = func(*http.Request) []core.Limit { f.trip(); return nil } }},
	{name: "skip", status: 500, opts: func(f *fuse) []core.Option {
		return []core.Option{core.WithSkip(func(r *http.Request) bool { return !f.request(r) })}
	}},
	{name: "observer", status: 200, charged: 1, opts: func(f *fuse) []core.Option {
		return []core.Option{core.WithObserver(func(context.Context, *core.Observation) { f.trip() })}
	}},
	{name: "headers", charged: 1, guard: func(f *fuse, g *apps.Guard) { g.Headers = func(http.Header, core.Decision) { f.trip() } }},
}

// TestPanicInCallback checks that a callback which panics once affects that request alone: it is not served, no lock
// stays held, and afterwards exactly what remains is admitted.
func TestPanicInCallback(t *testing.T) {
	for _, c := range callbacks {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, framework apps.Framework, http2 bool) {
				f := new(fuse)
				s := wire.Serve(t, framework.Build(apps.One(c.build(f), wire.OK)), http2)
				f.armed.Store(true)
				status := 0
				if resp, err := s.Client().Get(s.URL); err == nil {
					status = resp.StatusCode
					resp.Body.Close()
				}
				if status != c.status || f.armed.Load() {
					t.Errorf("tripped: %v; status %d, want %d", !f.armed.Load(), status, c.status)
				}
				for range 3 - c.charged {
					s.Get("/").WantStatus(t, 200)
				}
				s.Get("/").WantStatus(t, 429)
			})
		})
	}
}

// build returns a guard of three per hour with f in it.
func (c callback) build(f *fuse) apps.Guard {
	rule := core.PerHour(3).Using(core.SlidingLog).By(wire.Anyone)
	var opts []core.Option
	if c.rule != nil {
		c.rule(f, &rule)
	}
	if c.opts != nil {
		opts = c.opts(f)
	}
	g := apps.Guard{Limiter: core.Must(core.New([]core.Rule{rule}, opts...))}
	if c.guard != nil {
		c.guard(f, &g)
	}
	return g
}

// TestPanicInAnswer checks that a deny or error handler that panics does not affect the next request.
func TestPanicInAnswer(t *testing.T) {
	each(t, func(t *testing.T, framework apps.Framework, http2 bool) {
		f := new(fuse)
		noKey := core.Must(core.New([]core.Rule{core.PerHour(1).By(func(*http.Request) (string, error) { return "", core.ErrNoKey })}))
		for _, g := range []apps.Guard{
			{Limiter: wire.PerHour(0), Deny: func(w http.ResponseWriter, _ *http.Request, _ core.Decision) { f.trip(); w.WriteHeader(429) }},
			{Limiter: noKey, Fail: func(w http.ResponseWriter, _ *http.Request, _ error) { f.trip(); w.WriteHeader(429) }},
		} {
			s := wire.Serve(t, framework.Build(apps.One(g, wire.OK)), http2)
			f.armed.Store(true)
			if resp, err := s.Client().Get(s.URL); err == nil {
				resp.Body.Close()
				t.Errorf("status %d for a request whose response panicked", resp.StatusCode)
			}
			s.Get("/").WantStatus(t, 429)
		}
	})
}
