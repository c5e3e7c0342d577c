package adaptertest

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// A fuse makes a callback panic once, when it is armed.
type fuse struct{ armed atomic.Bool }

func (f *fuse) trip() {
	if f.armed.CompareAndSwap(true, false) {
		panic("tripped")
	}
}

// rule is a rule of 3 per hour; change puts f into it.
func (f *fuse) rule(change func(*core.Rule)) []core.Rule {
	r := core.PerHour(3).Using(core.SlidingLog).By(anyone)
	change(&r)
	return []core.Rule{r}
}

func (f *fuse) key(r *http.Request) (string, error) { f.trip(); return anyone(r) }
func (f *fuse) match(*http.Request) bool            { f.trip(); return true }
func (f *fuse) cost(*http.Request) int              { f.trip(); return 1 }
func (f *fuse) tier(*http.Request) []core.Limit     { f.trip(); return nil }
func (f *fuse) skip(*http.Request) bool             { f.trip(); return false }

func (f *fuse) observe(context.Context, *core.Observation) { f.trip() }

func (f *fuse) headers(http.Header, core.Decision) { f.trip() }

func (f *fuse) deny(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
	f.trip()
	w.WriteHeader(http.StatusTooManyRequests)
}

// testPanics checks that a callback that panics once affects that request alone: the next one is served, none is
// admitted without a charge, and no lock stays held.
func testPanics(t *testing.T, a Adapter) {
	f := new(fuse)
	plain := f.rule(func(*core.Rule) {})
	for _, row := range []struct {
		why   string
		rules []core.Rule
		opts  []core.Option
		guard Guard
	}{
		{"key", f.rule(func(r *core.Rule) { r.Key = f.key }), nil, Guard{}},
		{"match", f.rule(func(r *core.Rule) { r.Match = f.match }), nil, Guard{}},
		{"cost", f.rule(func(r *core.Rule) { r.Cost = f.cost }), nil, Guard{}},
		{"tier", f.rule(func(r *core.Rule) { r.Tier = f.tier }), nil, Guard{}},
		{"skip", plain, []core.Option{core.WithSkip(f.skip)}, Guard{}},
		{"observer", plain, []core.Option{core.WithObserver(f.observe)}, Guard{}},
		{"headers", plain, nil, Guard{Headers: f.headers}},
		{"deny handler", plain, nil, Guard{Deny: f.deny}},
	} {
		t.Run(row.why, func(t *testing.T) {
			row.guard.Limiter = core.Must(core.New(row.rules, append(row.opts, core.WithLogger(slog.New(slog.DiscardHandler)))...))
			f.armed.Store(true)
			served := a.serveSix(t, row.guard)
			if f.armed.Load() || served < 2 || served > 3 {
				t.Errorf("tripped: %v; %d served, want the 3 of the limit, less one at most that was charged as it panicked", !f.armed.Load(), served)
			}
		})
	}
}

// serveSix sends six requests, some of which may end without an answer, and a last one that must be denied. It returns
// how many the handler served.
func (a Adapter) serveSix(t *testing.T, g Guard) int32 {
	var served atomic.Int32
	s := a.serve(t, App{Guards: []Guard{g}, Routes: []Route{{Pattern: "/", Handler: func(http.ResponseWriter, *http.Request) { served.Add(1) }}}})
	s.Client().Transport.(*http.Transport).DisableKeepAlives = true
	for range 6 {
		if resp, err := s.Client().Get(s.URL); err == nil {
			_ = resp.Body.Close()
		}
	}
	s.get("/").wantStatus(t, http.StatusTooManyRequests)
	return served.Load()
}
