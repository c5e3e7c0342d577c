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

func (f *fuse) fail(w http.ResponseWriter, _ *http.Request, _ error) {
	f.trip()
	w.WriteHeader(http.StatusBadRequest)
}

// testPanics checks that a callback that panics once affects its request alone: afterwards exactly what remains is admitted, and no lock
// stays held.
func testPanics(t *testing.T, a Adapter) {
	f := new(fuse)
	plain := f.rule(func(*core.Rule) {})
	none := []core.Rule{core.PerHour(0).By(anyone)}
	noKey := f.rule(func(r *core.Rule) { r.Key = func(*http.Request) (string, error) { return "", core.ErrNoKey } })
	for _, row := range []struct {
		why      string
		rules    []core.Rule
		opts     []core.Option
		guard    Guard
		status   int // of the request in which the callback panics; 0: the connection ends without a response
		admitted int // requests after it
		last     int // the status of the next request
	}{
		{"key", f.rule(func(r *core.Rule) { r.Key = f.key }), nil, Guard{}, 500, 3, 429},
		{"match", f.rule(func(r *core.Rule) { r.Match = f.match }), nil, Guard{}, 500, 3, 429},
		{"cost", f.rule(func(r *core.Rule) { r.Cost = f.cost }), nil, Guard{}, 500, 3, 429},
		{"tier", f.rule(func(r *core.Rule) { r.Tier = f.tier }), nil, Guard{}, 500, 3, 429},
		{"skip", plain, []core.Option{core.WithSkip(f.skip)}, Guard{}, 500, 3, 429},
		{"observer", plain, []core.Option{core.WithObserver(f.observe)}, Guard{}, 200, 2, 429},
		{"headers", plain, nil, Guard{Headers: f.headers}, 0, 2, 429},
		{"deny handler", none, nil, Guard{Deny: f.deny}, 0, 0, 429},
		{"error handler", noKey, nil, Guard{Fail: f.fail}, 0, 0, 400},
	} {
		t.Run(row.why, func(t *testing.T) {
			row.guard.Limiter = core.Must(core.New(row.rules, append(row.opts, core.WithLogger(slog.New(slog.DiscardHandler)))...))
			s := a.serve(t, single(row.guard))
			s.Client().Transport.(*http.Transport).DisableKeepAlives = true
			f.armed.Store(true)
			status := 0
			if resp, err := s.Client().Get(s.URL); err == nil {
				status = resp.StatusCode
				_ = resp.Body.Close()
			}
			if f.armed.Load() || status != row.status {
				t.Errorf("tripped: %v; status %d, want %d", !f.armed.Load(), status, row.status)
			}
			for range row.admitted {
				s.get("/").wantStatus(t, http.StatusOK)
			}
			s.get("/").wantStatus(t, row.last)
		})
	}
}
